"""Which line of the user's files decides what a cause is about: by where a value comes from, as `trainwright explain` says it.

A row of causes names, in `decides`, a field of an object that the run's files become, and the line follows from that:

- ``pod:/POINTER``, in the spec of a pod of the role that the cause is about, overrides included;
- ``object:/POINTER``, in the object that carries the run;
- ``foundation:/KIND/NAME/POINTER``, in an object of its namespace's foundation;
- ``run:/KEY``, ``cluster:/KEY``: a line of the run or the profile itself, where no field of an object decides.

In a pointer, ``name=X`` is the item that has this name, or the key with this value, ``*`` any key or item, ``**`` any depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from trainwright.compile import Lowered, lower_run
from trainwright.findings import CompileError, Where
from trainwright.findings.locate import Locator, escape, tokens
from trainwright.manifest.foundation import foundation
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.provenance import Provenance, origin, split
from trainwright.operators.operator import makes_pods
from trainwright.project.load import Project, Sources, load_sources_for


class _Place(NamedTuple):
    """Something that a pointer may lead into."""

    content: Any
    pointer: str
    """Of the content, in its object."""
    answers: Provenance
    """Of that object."""


class Decider:
    """Of one run of a project."""

    def __init__(self, project: Project, run: str, name: str) -> None:
        """``name`` is that of the object that carries it."""
        self._project, self._run, self._name = project, run, name

    def __call__(self, source: str, role: str = "") -> Where | None:
        """The line; None where no file states the value, or the files cannot be read now.

        Args:
            source: as a row names it, with its values filled in.
            role: of the pods that the cause is about; empty for the first role that has the field.
        """
        kind, _, pointer = source.partition(":")
        if self._locator is None:
            return None
        if kind in ("run", "cluster"):
            return self._locator.source(source)
        path = tokens(pointer)
        match kind:
            case "foundation":
                of, name, *path = path
                objects = self._foundation
                places = [one for one in objects if (one.content["kind"], one.content["metadata"]["name"]) == (of, name)]
            case "object":
                places = self._carriers
            case _:
                places = [place for its, place in self._pods if its == role] or [place for _, place in self._pods]
        for place in places:
            for found in _match(place.content, path, place.pointer):
                where, below = origin(place.answers, found)
                if line := self._locator.source(where, below):
                    return line
        return None

    @cached_property
    def _sources(self) -> Sources | None:
        try:
            return load_sources_for(self._project, self._run)
        except CompileError:
            return None

    @cached_property
    def _locator(self) -> Locator | None:
        sources = self._sources
        file = sources.runs.get(self._run) if sources else None
        return file.locator(sources.clusters.get(file.run.cluster)) if sources and file else None

    @cached_property
    def _lowered(self) -> Lowered | None:
        sources = self._sources
        try:
            file = sources.runs[self._run] if sources else None
            return lower_run(file.run, sources.clusters[file.run.cluster].cluster, self._name) if sources and file else None
        except (CompileError, KeyError):  # the profile may not be there any more
            return None

    @cached_property
    def _pods(self) -> list[tuple[str | None, _Place]]:
        pods = self._lowered.pods if self._lowered else ()
        return [(one.role, _Place(one.found.spec, one.found.pointer, one.answers)) for one in pods]

    @cached_property
    def _carriers(self) -> list[_Place]:
        if self._lowered is None:
            return []
        pairs = zip(self._lowered.manifests, self._lowered.provenance, strict=True)
        return [_Place(one, "", answers) for one, answers in pairs if makes_pods(one) and not in_foundation(one)]

    @cached_property
    def _foundation(self) -> list[_Place]:
        if self._lowered is None:
            return []
        of = self._lowered.resolution
        return [_Place(one, "", answers) for one, answers in map(split, foundation(of.cluster, of.run.namespace))]


def _match(node: Any, path: Sequence[str], pointer: str) -> Iterator[str]:
    """Every pointer that a path with wildcards leads to."""
    if not path:
        yield pointer
        return
    key_or_mark, *rest = path
    if key_or_mark == "**":
        yield from _match(node, rest, pointer)
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        here = f"{pointer}/{escape(str(key))}"
        if key_or_mark == "**":
            yield from _match(value, path, here)
        elif key_or_mark in ("*", str(key)) or _has(key, value, key_or_mark):
            yield from _match(value, rest, here)


def _has(key: str | int, value: Any, mark: str) -> bool:
    name, given, wanted = mark.partition("=")
    stated = value.get(name) if isinstance(value, dict) else value if key == name else None
    return bool(given) and str(stated) == wanted
