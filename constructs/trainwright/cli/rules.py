"""``trainwright rules``: every finding there is."""

from __future__ import annotations

import json as encoder
from typing import Annotated

import typer

from trainwright.cli.session import JsonOption, output, stop
from trainwright.findings.codes import CODES


def command(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="One code, such as TW203.")] = None,
    json: JsonOption = False,
) -> None:
    """List the codes of all findings, or explain one."""
    if code is not None and code.upper() not in CODES:
        stop(f"there is no finding {code}; `trainwright rules` lists them")
    chosen = [CODES[code.upper()]] if code else list(CODES.values())
    if json:
        rows = [
            {"code": c.id, "severity": c.severity.value, "title": c.title, "why": c.why, "waivable": c.waivable}
            | ({"warning": c.milder} if c.milder else {})
            for c in chosen
        ]
        output(encoder.dumps(rows, indent=2))
        return
    for entry in chosen:
        output(f"{entry.id}  {entry.severity.value:<8}{entry.title}")
        if code and entry.milder:
            output(f"\nA warning {entry.milder}.")
        if code:
            output(f"\n{entry.why}\n\nExamples: docs/findings/{entry.id}.md")
