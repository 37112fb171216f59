"""Diagnostics are data: a finding says where, what, why it matters and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """How much a finding weighs."""

    ERROR = "error"
    """Nothing is written."""
    WARNING = "warning"
    """Written, and shown to the reviewer until its cause is fixed or it is waived."""
    INFO = "note"
    """Shown for completeness."""


class Where(NamedTuple):
    """A place in the user's files: line and column from 1; the pointer (RFC 6901) is all there is for values built in Python."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str = ""

    def __str__(self) -> str:
        if self.file is None:
            return self.pointer or "/"
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Finding(NamedTuple):
    """One diagnostic."""

    code: str
    severity: Severity
    where: Where
    message: str
    why: str
    fix: str
    """What to write instead, for this very case."""
    waived: str | None = None
    """The reason of the waiver that covers it."""


def visible(text: str) -> str:
    """One line as a terminal may get it, with escapes for what does not print: lines quote files, and no file may steer it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class CompileError(Exception):
    """A compile that ends with findings, at least one of them an error."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        lines = (f"{finding.where}: {finding.code}: {finding.message}; {finding.fix}" for finding in findings)
        super().__init__("\n".join(map(visible, lines)))
