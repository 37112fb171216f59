"""Exit codes of the command line, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FINDINGS = 1
    """Errors in runs or profiles, or ``dist/`` is not what they compile to."""
    USAGE = 2
    """Wrong options or arguments, or a name that does not exist."""
    ENVIRONMENT = 3
    """Something outside the project's files is missing or broken: Node, disk, permissions."""
    INTERNAL = 70
    """A defect of trainwright itself."""
