"""What is wrong with one value of an object, and the words that every check has for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainwright.findings.locate import escape
from trainwright.model import closest
from trainwright.units import literal


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding before its place in a file is known."""

    code: str
    pointer: str
    """JSON pointer (RFC 6901) into the object."""
    message: str
    fix: str

    @property
    def said(self) -> tuple[str, str, str]:
        return self.pointer, self.message, self.fix

    def below(self, pointer: str) -> Problem:
        """The same problem, seen from an object that holds this one at ``pointer``."""
        return replace(self, pointer=f"{pointer}{self.pointer}")


def unknown_field(pointer: str, key: str, known: Collection[str]) -> Problem:
    """The problem of a field that the object at ``pointer`` does not have.

    Args:
        known: fields that it has and that are not set, so that one of them may be meant.
    """
    near = closest(key, list(known))
    fix = f"did you mean `{near}`?" if near else f"remove it; other fields are: {', '.join(list(known)[:12]) or 'none'}"
    return Problem("TW703", f"{pointer}/{escape(key)}", f"{shown(pointer)} has no field `{key[:60]}`", fix)


def unknown_choice(pointer: str, value: object, allowed: Collection[str]) -> Problem:
    """The problem of a value that is none of the allowed ones."""
    return Problem("TW705", pointer, f"{shown(pointer)} cannot be {written(value)}", choose(value, allowed))


def choose(value: object, allowed: Collection[str]) -> str:
    """What to write instead of a value that is none of the allowed ones."""
    near = closest(value, list(allowed)) if isinstance(value, str) else None
    choices = ", ".join(allowed)
    return f"did you mean {near}? Allowed: {choices}" if near else f"write one of {choices}"


def duplicate(pointer: str, index: int, earlier: int, key: Any) -> Problem:
    """The problem of an item that a list already holds."""
    same = ", ".join(f"{name} {value}" for name, value in key.items()) if isinstance(key, Mapping) else str(key)
    message = f"item {index} of {pointer.rpartition('/')[2] or 'the list'} has the same {same or 'empty key'} as item {earlier}"
    return Problem("TW706", f"{pointer}/{index}", message[:240], "change one of the two, or remove it")


def shown(pointer: str) -> str:
    """A pointer as messages name it."""
    return pointer or "the object"


def written(value: object) -> str:
    """A value as messages show it, in at most 60 characters."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else literal(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
