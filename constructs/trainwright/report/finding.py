"""Findings for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.findings import Finding, Severity, Where, visible

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
MOST_PLACES = 10
"""That are listed of one cause; JSON has them all."""


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Each finding as ``file:line:column: severity code message``, with its why and its fix below, once where it is found often.

    On a terminal in colour and wrapped at its width; elsewhere plain text, a line each, so that it can be searched.
    """
    from rich.padding import Padding
    from rich.text import Text

    for finding, others in by_cause(findings).items():
        severity = (finding.severity.value, _STYLES[finding.severity])
        message = f" {finding.code} {visible(finding.message)}"
        lines = [
            Text.assemble((visible(str(finding.where)), "bold"), ": ", severity, message),
            Text(f"why: {visible(finding.why)}", style="dim"),
            *(Text(f"{label}: {visible(text)}") for label, text in _remarks(finding, others)),
        ]
        for indent, line in zip((0, *(4 for _ in lines[1:])), lines, strict=True):
            if console.is_terminal:
                console.print(Padding(line, (0, 0, 0, indent), expand=False), highlight=False)
            else:
                console.print(Text(" " * indent) + line, soft_wrap=True, highlight=False)


def by_cause(findings: Sequence[Finding]) -> dict[Finding, list[Where]]:
    """The first of all findings that differ in nothing but their place, and the places of the others."""
    first: dict[Finding, Finding] = {}
    others: dict[Finding, list[Where]] = {}
    for finding in findings:
        same = first.setdefault(finding._replace(where=Where()), finding)
        places = others.setdefault(same, [])
        if finding.where not in (same.where, *places):
            places.append(finding.where)
    return others


def _remarks(finding: Finding, others: Sequence[Where]) -> Iterator[tuple[str, str]]:
    if finding.fix:
        yield "fix", finding.fix
    if finding.waived is not None:
        yield "waived", finding.waived
    if others:
        rest = f" and {len(others) - MOST_PLACES} more places" if len(others) > MOST_PLACES else ""
        yield "also", f"{', '.join(str(place) for place in others[:MOST_PLACES])}{rest}"


def to_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The same as JSON-safe values, in the same order."""
    return [
        {
            "code": finding.code,
            "severity": finding.severity.value,
            "file": finding.where.file,
            "line": finding.where.line,
            "column": finding.where.column,
            "pointer": finding.where.pointer,
            "message": finding.message,
            "why": finding.why,
            "fix": finding.fix,
            "waived": finding.waived,
        }
        for finding in findings
    ]
