"""``charts/defaults.yaml``: read, and merged into runs, with the place of all that a run has from it.

A run is merged before it is validated. So a default means what it would mean in the run's own file, to its identity too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from trainwright.findings.locate import NOWHERE, Defaulted, Positions, escape
from trainwright.reading import validate
from trainwright.reading.document import Document, read_yaml
from trainwright.run import Run
from trainwright.run.defaults import CHOOSERS, Defaults
from trainwright.run.model import LINEAGE_OF_MODEL

Shape = type[BaseModel] | type[dict[str, Any]]
"""The model of a mapping; ``dict`` for a mapping with keys of the user's own, each entry of which is one thing."""


@lru_cache(maxsize=1024)
def part(shape: Shape, key: str) -> Shape | None:
    """What a key of a mapping merges by: a model's fields, or the keys of a mapping; None for what is replaced whole."""
    if not issubclass(shape, BaseModel) or key not in shape.model_fields:
        return None
    kind = shape.model_fields[key].annotation
    arguments = [each for each in get_args(kind) if each is not NoneType]
    if NoneType in get_args(kind) and len(arguments) == 1:
        (kind,) = arguments
    if get_origin(kind) is dict:
        return dict
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


@dataclass(frozen=True, slots=True)
class DefaultsFile:
    """The defaults of a project."""

    path: Path
    document: Document

    def merged(self, document: Document) -> Document:
        """A run's document with what it does not say itself."""
        data, defaulted = self.beneath(document.data)
        return document._replace(data=data, defaulted=defaulted)

    def beneath(self, run: Mapping[str, Any]) -> tuple[dict[str, Any], Defaulted]:
        """A run's fields, and beneath them those of all defaults that hold for it; values may be models."""
        layers = _Layers(self.document.positions)
        groups = self.document.data
        layers.lay(groups.get("all", {}), "/all")
        for field, group in CHOOSERS.items():
            name = run.get(field, layers.data.get(field))
            if isinstance(name, str) and name in groups.get(group, {}):
                layers.lay(groups[group][name], f"/{group}/{escape(name)}")
        own = _Layers(NOWHERE, layers.data, layers.places)
        own.lay(run, None)
        _leave_out(own)
        return own.data, Defaulted(self.document.file, _kept(own.data, "", own.places), own.places)


def read_defaults(path: Path, shown: str) -> DefaultsFile:
    """The defaults that a file states.

    Raises:
        CompileError: with a finding for each thing that is wrong, on its line.
    """
    document = read_yaml(path, shown)
    validate(Defaults, document._replace(data=_without_removals(document.data)))
    return DefaultsFile(path, document)


def _without_removals(data: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults without the nulls that take back a more general default; those of all runs have nothing to take back."""
    return {
        group: {name: _pruned(layer, Run) if isinstance(layer, Mapping) else layer for name, layer in value.items()}
        if group in CHOOSERS.values() and isinstance(value, Mapping) else value
        for group, value in data.items()
    }


def _pruned(layer: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Without nulls, as deep as layers are merged."""
    kept = {}
    for key, value in layer.items():
        below = part(shape, key)
        if value is not None:
            kept[key] = _pruned(value, below) if below is not None and isinstance(value, Mapping) else value
    return kept


class _Layers:
    """A run in the making: each layer that is laid on wins over what is there."""

    def __init__(
        self, positions: Positions, data: dict[str, Any] | None = None, places: dict[str, tuple[int, int]] | None = None
    ) -> None:
        self.positions = positions
        """Of the document that the layers are from."""
        self.data: dict[str, Any] = data or {}
        self.places: dict[str, tuple[int, int]] = places or {}
        """Pointer in the run -> where a default says it."""

    def lay(self, layer: Mapping[str, Any], source: str | None) -> None:
        """One more layer, which is at the pointer ``source`` of its document; None for the run itself."""
        self._lay(self.data, layer, "", source, Run)

    def _lay(self, data: dict[str, Any], layer: Mapping[str, Any], pointer: str, source: str | None, shape: Shape) -> None:
        for key, value in layer.items():
            here, there = f"{pointer}/{escape(str(key))}", None if source is None else f"{source}/{escape(str(key))}"
            below = part(shape, key)
            above = _fields(value)
            if value is None and key in data:
                del data[key]
                self._forget(here)
            elif below is not None and above is not None and isinstance(data.get(key), Mapping):
                data[key] = dict(data[key])
                self._lay(data[key], above, here, there, below)
                if source is None:
                    self.places.pop(here, None)
            elif value is not None or source is None:
                data[key] = value
                self._forget(here)
                self._adopt(here, there)

    def _forget(self, pointer: str) -> None:
        for place in [place for place in self.places if place == pointer or place.startswith(f"{pointer}/")]:
            del self.places[place]

    def _adopt(self, pointer: str, source: str | None) -> None:
        if source is not None:
            found = {place: at for place, at in self.positions.items() if place == source or place.startswith(f"{source}/")}
            self.places |= {f"{pointer}{place.removeprefix(source)}": at for place, at in found.items()}


def _leave_out(run: _Layers) -> None:
    """A lineage, or who saves, that a default names and the run's own work refuses: it is for the others."""
    work, stated = run.data.get("workload"), run.data.get("checkpoints")
    kind = getattr(work, "kind", (_fields(work) or {}).get("kind"))
    refused = [key for key in ("lineage", "by") if f"/checkpoints/{key}" in run.places]
    if kind not in LINEAGE_OF_MODEL or not refused or not isinstance(stated, Mapping):
        return
    kept = {key: value for key, value in stated.items() if key not in refused}
    run.data = {**run.data, "checkpoints": kept}
    run.places = {place: at for place, at in run.places.items() if place not in [f"/checkpoints/{key}" for key in refused]}
    if not kept:
        del run.data["checkpoints"]


def _fields(value: object) -> Mapping[str, Any] | None:
    """What a mapping, or a model built in Python, states; None for anything else."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
    return value if isinstance(value, Mapping) else None


def _kept(data: Mapping[str, Any], pointer: str, places: Positions) -> dict[str, Any]:
    """Of a merged run, what has a place in the defaults."""
    kept: dict[str, Any] = {}
    for key, value in data.items():
        here = f"{pointer}/{escape(str(key))}"
        if here in places:
            kept[key] = value
        elif isinstance(value, Mapping) and (below := _kept(value, here, places)):
            kept[key] = below
    return kept
