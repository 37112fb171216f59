"""What is wrong with one value of an object."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding before its place in a file is known."""

    code: str
    pointer: str
    """JSON pointer (RFC 6901) into the object."""
    message: str
    fix: str

    def below(self, pointer: str) -> Problem:
        """The same problem, seen from an object that holds this one at ``pointer``."""
        return replace(self, pointer=f"{pointer}{self.pointer}")
