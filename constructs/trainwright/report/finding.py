"""Findings for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainwright.findings import Finding, Severity

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Each finding as ``file:line:column: severity code message``, with its why and its fix below.

    Plain text, unwrapped and without colour, where the console is no terminal.
    """
    from rich.text import Text

    for finding in findings:
        severity = (finding.severity.value, _STYLES[finding.severity])
        message = f" {finding.code} {_visible(finding.message)}"
        head = Text.assemble((_visible(str(finding.where)), "bold"), ": ", severity, message)
        lines = [head, Text(f"    why: {_visible(finding.why)}", style="dim")]
        if finding.fix:
            lines.append(Text(f"    fix: {_visible(finding.fix)}"))
        if finding.waived is not None:
            lines.append(Text(f"    waived: {_visible(finding.waived)}"))
        for line in lines:
            console.print(line, soft_wrap=True, highlight=False)


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


def _visible(text: str) -> str:
    """Control characters as escapes: messages quote files, and a file must not steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
