"""One variable of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from trainwright.variables.values import Values


class Library(Enum):
    """Who reads a variable."""

    NCCL = "NCCL"
    TORCH = "torch.distributed"
    GLOO = "Gloo"
    OPEN_MPI = "Open MPI"
    INTEL_MPI = "Intel MPI"
    LIBFABRIC = "libfabric"


@dataclass(frozen=True, slots=True)
class Risk:
    """Why a variable deserves a warning."""

    reason: str
    harmless: tuple[str, ...] = ()
    """Values that deserve none."""

    def applies(self, value: str | None) -> bool:
        """Whether this value deserves it; None is a value that nobody here can see."""
        return value is None or value.lower() not in {word.lower() for word in self.harmless}


@dataclass(frozen=True, slots=True)
class Entry:
    """A variable that a library reads, or once read.

    A version that no source states is left out: None is "not known", never "from the first".
    """

    name: str
    library: Library
    what: str
    values: Values
    source: str
    """Address of the page, or of the file, that says so."""
    since: str | None = None
    """First version of the library that reads it."""
    until: str | None = None
    """First version that does not read it any more."""
    dead: str | None = None
    """The rest of a sentence that begins with the name, where setting it can only be a mistake."""
    deprecated: str | None = None
    """The rest of a sentence that begins with the name, where it still works under a better one."""
    risk: Risk | None = None
    instead: str | None = None
    """What to write instead of a dead, deprecated or risky one."""


@dataclass(frozen=True, slots=True)
class Family:
    """Variables whose first words are known and whose last ones are many: the whole name is not checked."""

    stem: str
    """Without an underscore at its end: the stem alone is a name too."""
    library: Library
    what: str
    source: str

    def matches(self, name: str) -> bool:
        return name == self.stem or name.startswith(f"{self.stem}_")
