"""``trainwright rules``: every finding there is."""

from __future__ import annotations

import json as encoder
from typing import Annotated

import typer

from trainwright.cli.session import JsonOption, no_such, output, stop
from trainwright.findings.codes import CODES
from trainwright.pages import page_text


def command(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="One code, such as TW203.")] = None,
    json: JsonOption = False,
) -> None:
    """List the codes of all findings, or print the page of one, with what to write instead and examples."""
    if code is not None and code.upper() not in CODES:
        stop(f"{no_such('finding', code, CODES).partition('use one of')[0]}`trainwright rules` lists them")
    chosen = [CODES[code.upper()]] if code else list(CODES.values())
    if json:
        rows = [
            {"code": c.id, "severity": c.severity.value, "title": c.title, "why": c.why, "waivable": c.waivable}
            | ({"warning": c.milder} if c.milder else {})
            for c in chosen
        ]
        output(encoder.dumps(rows, indent=2))
        return
    if code:
        output(page_text(f"findings/{code.upper()}"))
        return
    for entry in chosen:
        output(f"{entry.id}  {entry.severity.value:<8}{entry.title}")
