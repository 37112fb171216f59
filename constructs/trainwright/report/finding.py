"""Findings for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainwright.findings import Finding, Severity, visible

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
        message = f" {finding.code} {visible(finding.message)}"
        head = Text.assemble((visible(str(finding.where)), "bold"), ": ", severity, message)
        lines = [head, Text(f"    why: {visible(finding.why)}", style="dim")]
        if finding.fix:
            lines.append(Text(f"    fix: {visible(finding.fix)}"))
        if finding.waived is not None:
            lines.append(Text(f"    waived: {visible(finding.waived)}"))
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
