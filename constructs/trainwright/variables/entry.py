"""The entries of the catalogue, and the values that a variable may have, as types that check and describe themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Values(Protocol):
    """A set of texts. As text itself it ends the sentence "allowed: ..."."""

    def accepts(self, text: str) -> bool:
        """Whether the library takes this text for what it says."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words; case counts only where the library compares it."""

    words: tuple[str, ...]
    exact: bool = False

    def accepts(self, text: str) -> bool:
        return text in self.words or (not self.exact and text.lower() in {word.lower() for word in self.words})

    def __str__(self) -> str:
        return ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, both ends included.

    Read as C's ``strtoll(text, end, 0)`` reads it: decimal, 0x for hexadecimal, a leading 0 for octal. A unit such as 8M is
    refused: C stops at the letter and takes 8.
    """

    low: int | None = None
    high: int | None = None

    def accepts(self, text: str) -> bool:
        match = re.fullmatch(r"([+-]?)(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)", text, re.IGNORECASE)
        if match is None:
            return False
        digits = match[2].lower()
        number = int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
        number = -number if match[1] == "-" else number
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}"
        return "a whole number" if self.low is None else f"a whole number, at least {self.low}"


@dataclass(frozen=True, slots=True)
class Positive:
    """A number above 0."""

    def accepts(self, text: str) -> bool:
        return re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text) is not None and float(text) > 0

    def __str__(self) -> str:
        return "a number above 0"


@dataclass(frozen=True, slots=True)
class Form:
    """A text of a form that is said in words."""

    pattern: str
    words: str

    def accepts(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Listed:
    """Words with a separator between them; ``inverse`` before the list means all but these."""

    words: tuple[str, ...]
    separator: str = ","
    inverse: str = "^"

    def accepts(self, text: str) -> bool:
        known = {word.lower() for word in self.words}
        return all(word.strip().lower() in known for word in text.removeprefix(self.inverse).split(self.separator))

    def __str__(self) -> str:
        return f"a list of {', '.join(self.words)} (separator {self.separator}); {self.inverse} before it excludes these"


@dataclass(frozen=True, slots=True)
class PerFunction:
    """NCCL's lists of algorithms and protocols: ``ring,tree``, ``^tree`` or, since 2.24, ``ring;allreduce:^tree``."""

    words: tuple[str, ...]

    def accepts(self, text: str) -> bool:
        """As ``parseList`` reads it (NCCL, src/graph/tuning.cc): a blank is part of a name, and an empty part is none."""
        parts = [part.rpartition(":") for part in text.split(";") if part]
        named = all(colon and function.isalpha() for function, colon, _ in parts[1:])
        lists = [(names or function).removeprefix("^") for function, _, names in parts]
        names = [name.lower() for listed in lists for name in listed.split(",") if name]
        return named and set(names) <= set(self.words)

    def __str__(self) -> str:
        return f"{Listed(self.words)}; since 2.24 also by function, as in ring;allreduce:^tree"


@dataclass(frozen=True, slots=True)
class File:
    """A file. Nobody but a shell expands a tilde."""

    def accepts(self, text: str) -> bool:
        return bool(text) and not text.startswith("~")

    def __str__(self) -> str:
        return "a path, without ~"


@dataclass(frozen=True, slots=True)
class Text:
    """Whatever the library makes of it."""

    def accepts(self, text: str) -> bool:
        return True

    def __str__(self) -> str:
        return "text"


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
    documented: bool = True
    """Whether the library says anywhere but in its source what it does."""
    must: Values | None = None
    """What it has to hold if it is set: any other text ends the program. None where the library goes on with any text."""

    def ends(self, text: str) -> bool:
        """Whether the program ends because the variable holds this text."""
        return self.must is not None and not self.must.accepts(text)


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
