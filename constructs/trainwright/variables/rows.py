"""The rows of the catalogue: the YAML files of this folder.

A file holds sections. A section says whose variables it has (``library``), the page or file that says so (``source``, in which
``{anchor}`` is the name as a heading of a page has it), and the ``prefix`` of their names. It has one of these:

- ``rows``: a variable each, with the fields of :class:`Entry`; what it says itself wins over the section. Its ``values`` are a
  list of words, one of ``text``, ``path``, ``switch``, ``count``, ``size``, ``whole``, ``positive`` and ``nothing``, or a name of
  the section's own ``values``; without any they are text. The section's ``must`` says what the program ends without, by the name
  of values, where the row does not.
- ``undocumented``: why each of the ``names`` deserves a warning.
- ``families``: variables that begin alike; or ``what`` of each of the ``stems``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainwright.reading.rows import read_rows
from trainwright.variables.entry import (
    Choice,
    Entry,
    Family,
    File,
    Form,
    Library,
    Listed,
    PerFunction,
    Positive,
    Risk,
    Text,
    Values,
    Whole,
)

_KNOWN: Mapping[str, Values] = {
    "text": Text(), "path": File(), "switch": Choice(("0", "1")), "count": Whole(1), "size": Whole(0), "whole": Whole(),
    "positive": Positive(), "nothing": Choice(()),
}  # fmt: skip

Section = dict[str, Any]


def _read(library: str) -> list[Entry | Family]:
    """The rows of a file, in order."""
    sections = read_rows(Path(__file__).with_name(f"{library}.yaml"))
    return [row for section in sections for row in _rows(**section)]


def _rows(
    library: str, source: str = "", prefix: str = "", rows: Section | None = None, undocumented: str = "", **section: Any
) -> Iterator[Entry | Family]:
    named = {**_KNOWN, **{name: _values(stated, _KNOWN) for name, stated in section.get("values", {}).items()}}
    for name, row in (rows or {}).items():
        yield _entry(prefix + name, {"library": library, "source": source, **row}, named, section.get("must", {}))
    if undocumented:
        for name in section["names"].split():
            risk = Risk(undocumented)
            yield Entry(prefix + name, Library(library), "not documented", Text(), source, risk=risk, documented=False)
    for name, row in section.get("families", {}).items():
        yield Family(name, Library(library), row["what"], row.get("source", source))
    for stem in section.get("stems", "").split():
        yield Family(prefix + stem, Library(library), section["what"].format(name=stem), source)


def _entry(name: str, row: Section, named: Mapping[str, Values], musts: Mapping[str, str]) -> Entry:
    stated, risk = row.pop("values", "text"), row.pop("risk", None)
    must = row.pop("must", musts.get(stated) if isinstance(stated, str) else None)
    return Entry(
        name,
        Library(row.pop("library")),
        values=_values(stated, named),
        source=row.pop("source").format(anchor=name.lower().replace("_", "-")),
        must=None if must is None else _values(must, named),
        risk=risk and (Risk(risk) if isinstance(risk, str) else Risk(risk["reason"], tuple(risk["harmless"]))),
        **row,
    )


def _values(stated: Any, named: Mapping[str, Values]) -> Values:
    if isinstance(stated, str):
        return named[stated]
    if isinstance(stated, list):
        return Choice(tuple(stated))
    [(kind, parts)] = stated.items()
    match kind:
        case "exactly":
            return Choice(tuple(parts), exact=True)
        case "listed":
            return Listed(tuple(parts))
        case "per function":
            return PerFunction(tuple(parts))
        case "form":
            return Form(*parts)
        case _:
            return Whole(*parts)


ROWS = [row for library in ("nccl", "torch_distributed", "mpi", "libfabric") for row in _read(library)]

VARIABLES = {row.name: row for row in ROWS if isinstance(row, Entry)}
"""Every variable by its name, in the order of the documentation."""

FAMILIES = tuple(row for row in ROWS if isinstance(row, Family))
