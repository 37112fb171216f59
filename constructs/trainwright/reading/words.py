"""Words that people bring from manifests, charts and launchers: what each is here, and the line to write instead.

The words are those of Kubernetes and Kubeflow, Helm charts, TorchX, SkyPilot, accelerate, DeepSpeed's configuration, Ray and
the Trainer of Hugging Face. The rows are in ``words.yaml``. A word that is only misspelt needs no row: what is nearly right is
proposed without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trainwright.findings.locate import dotted
from trainwright.reading.rows import read_rows
from trainwright.reading.scalar import Scalar, ScalarError, read_scalar
from trainwright.reading.shape import Home, Keys
from trainwright.units import literal


class Word(NamedTuple):
    """One row: words that mean the same, where they are met, and what to write instead."""

    words: str
    """With commas between them. They are compared without upper case, dashes and underscores. A value may be told by its type:
    text, number, list, mapping.
    """
    here: str
    """What it is here."""
    at: str = ""
    """The end of the path of the mapping that has the word as a key, or of the key that has it as a value: ``<name>`` for a key
    of the user's own. Empty where the word means the same in every mapping, ``/`` for the top level.
    """
    write: str = ""
    """Lines in backticks, where there is anything to write; ``or`` stands between those of which one is enough. ``KEY`` is the
    user's own key, and ``<8>`` what the user wrote, where that has the form of the example.
    """
    to: str | None = None
    """The mapping of the lines; default: the one that has the word. ``..`` is the one above it."""

    def lines(self, key: str, value: object) -> str:
        """``write``, with the user's key and value in their places."""
        return re.sub(r"<([^>]*)>", lambda part: _filled(part[1], value), self.write).replace("KEY", key)

    def fix(self, place: Keys, value: object) -> str:
        """What to write in place of a key or value, in words."""
        if not self.write:
            return "remove it"
        there = self._there(place)
        prefix = "" if there == place[:-1] else f"in `{dotted(there)}`, " if there else "at the top level, "
        return f"{prefix}write {self.lines(str(place[-1] if self.to != '..' else place[-2]), value)}"

    def stated(self, place: Keys) -> frozenset[Keys]:
        """The keys that the lines have."""
        return frozenset((*self._there(place), line.partition(":")[0]) for line in re.findall("`([^`]+)`", self.write))

    def _there(self, place: Keys) -> Keys:
        """Where the lines stand."""
        if self.to is None:
            return place[:-1]
        return place[:-2] if self.to == ".." else tuple(self.to.split(".")) if self.to else ()


def _filled(example: str, value: object) -> str:
    return literal(value) if _form(value) == _form(_read(example)) else example


def _read(text: str) -> Scalar:
    try:
        return read_scalar(text)
    except ScalarError:
        return text


def _form(value: object) -> str:
    """What kind of thing a value is; empty for what no line can hold as it is."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if not isinstance(value, str):
        return type(value).__name__
    forms = {"amount": r"[0-9.]+[kKMGTP]i?", "path": r"/[\w./-]*\w", "name": r"[a-z]([-a-z0-9]*[a-z0-9])?"}
    return next((name for name, form in forms.items() if re.fullmatch(form, value)), "")


def _rows(what: str) -> Mapping[str, tuple[Word, ...]]:
    read = read_rows(Path(__file__).with_name("words.yaml"))
    run, cluster = (tuple(Word(**row) for row in read[document][what]) for document in ("run", "cluster"))
    return {"Run": run, "Defaults": run, "Cluster": cluster}


KEYS = _rows("keys")
"""Title of a document's model -> words that are no keys of it."""
VALUES = _rows("values")
"""The same of words that are no values."""
TYPES: Mapping[type, str] = {
    str: "text", bool: "true", int: "number", float: "number", list: "list", tuple: "list", dict: "mapping",
}  # fmt: skip
"""Of a value -> its name in a row."""


def key_word(title: str, keys: Keys) -> Word | None:
    """What the last key is here, which its mapping does not know."""
    return _nearest(KEYS.get(title, ()), keys[:-1], _same(str(keys[-1])))


def value_word(title: str, keys: Keys, value: object) -> Word | None:
    """What a wrong value is here: by what it says, or by its type."""
    said = _same(literal(value)) if isinstance(value, str | bool) else ""
    rows = VALUES.get(title, ())
    return _nearest(rows, keys, said) or _nearest(rows, keys, _type_of(value))


def _type_of(value: object) -> str:
    return "mapping" if isinstance(value, Mapping) else TYPES.get(type(value), "")


def _nearest(rows: tuple[Word, ...], keys: Keys, word: str) -> Word | None:
    """The row of a word whose place says most."""
    found = [row for row in rows if word in _words(row) and _is_at(row.at, keys)]
    return max(found, key=lambda row: len(row.at), default=None)


@cache
def _words(row: Word) -> frozenset[str]:
    return frozenset(map(_same, row.words.split(",")))


def _same(word: str) -> str:
    return word.strip().lower().replace("-", "").replace("_", "").replace(" ", "")


def _is_at(place: str, keys: Keys) -> bool:
    if place == "/":
        return not keys
    path = tuple(place.split(".")) if place else ()
    return len(path) <= len(keys) and Home(path).is_at(keys[len(keys) - len(path):])
