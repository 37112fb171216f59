"""What operators and the API server refuse beyond schemas: the rows of ``rules.yaml`` in each operator's folder.

A file holds blocks. A block is about ``objects``, each a kind as kubectl names it (``RayJob.ray.io``; ``*`` is any kind) and a
pointer to the part that the block calls ``object``, with ``*`` for each of several parts; or ``pods``, the template of every pod
that any kind holds. ``top`` is the whole object. What the API server refuses in a part (TW704, TW705) it refuses of another
group's kind later: in what a controller makes of it (TW711). A block's ``variables`` are CEL, or plain lists, that every row may
use; ``beside`` gives a name to what a reference with a kind and a name leads to: a list of one object, or of none where that is
not validated too. A row says:

- ``at``: where it looks. ``*`` in a pointer stands for any key or index, ``*Specs`` for keys that end so; a place that is not
  there is passed over.
- ``must``: what holds there, in CEL. ``self`` is the value, ``owner`` what it is in, ``field`` its key there, ``keys`` what the
  stars stand for. An expression that fails says nothing: a wrong shape is the schema's to report.
- ``check`` instead: a function of the folder's ``rules.py``, for what CEL cannot say. It takes ``self`` and ``object``, and
  yields problems with pointers below ``self``.
- ``let``: values that the row names, in CEL.
- ``message`` and ``write``: what is wrong, and what to write instead; ``{…}`` is CEL, ``{{`` a brace.
- ``place``: a pointer from there to what is wrong, where it is missing, or only a part.
- ``source``: the upstream file that refuses it; ``since``: the first release that does, where an older one that profiles may
  name takes it, which the message says; ``code``: of the finding.
- ``breaks`` and ``holds``: changes to a valid sample, by pointer, that break the row and do not; null takes a value away. Without
  ``holds`` the sample itself does not break it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from trainwright.findings.locate import at, escape, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.pods import pods_in
from trainwright.objects.cel import BreaksError, CannotEvaluateError, Language, without_texts
from trainwright.objects.fields import text
from trainwright.objects.metadata import not_a_label, not_a_label_value, not_a_service_label, not_a_subdomain, not_qualified
from trainwright.objects.problem import Problem, choose

_IN_TEXT = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
PODS = "pods"
_GIVEN = ("self", "object", "top", "owner", "field", "keys")

Given = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""Objects that are validated together, by kind and name."""
NOTHING: Given = MappingProxyType({})


class Place(NamedTuple):
    """A value that a row looks at."""

    pointer: str
    value: Any
    owner: Any = None
    keys: tuple[str | int, ...] = ()

    @property
    def given(self) -> dict[str, Any]:
        last = tokens(self.pointer)[-1] if self.pointer else ""
        return {"self": self.value, "owner": self.owner, "field": last, "keys": list(self.keys)}


@dataclass(frozen=True)
class Row:
    """One thing that is refused (TW711), or taken and done otherwise (TW714)."""

    at: str | Sequence[str]
    source: str
    must: str = ""
    check: str = ""
    let: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    message: str = ""
    write: str = ""
    code: str = "TW711"
    since: str = ""
    breaks: Mapping[str, Any] = field(default_factory=dict)
    holds: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _patterns(self) -> list[list[str]]:
        return [tokens(pattern) for pattern in ([self.at] if isinstance(self.at, str) else self.at)]

    def places(self, about: Any) -> Iterator[Place]:
        for pattern in self._patterns:
            yield from _places(Place("", about), pattern)


@dataclass(frozen=True)
class Block:
    """Rows about the same objects."""

    folder: str
    """The operator's, which holds the functions that checks name."""
    objects: Sequence[str]
    rows: Sequence[Row]
    name: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def language(self) -> Language:
        named = (name for row in self.rows for name in row.let)
        return Language((*_GIVEN, *self.beside, *self.variables, *named), _FUNCTIONS)

    def scope(self, about: Any, top: Any = None, given: Given = NOTHING) -> _Scope:
        """The block's variables, of one object."""
        beside = {name: _referred(at(about, pointer), about, given) for name, pointer in self.beside.items()}
        return _Scope(self.language, self.variables, {"object": about, "top": top, **beside})

    def refused_in(self, place: Place, top: Any, given: Given = NOTHING) -> Iterator[Problem]:
        """What the rows refuse in a part of an object."""
        kind, _, own = self.objects[0].partition("/")[0].partition(".")
        here = kind in ("*", PODS) or own == GroupKind.of(top).group
        for problem in self.problems(place.value, top, given):
            yield (problem if here else refused_later(problem)).below(place.pointer)

    def problems(self, about: Any, top: Any = None, given: Given = NOTHING) -> Iterator[Problem]:
        """What the rows refuse in an object, or in the part of one that the block is about."""
        scope = self.scope(about, top, given)
        for row in self.rows:
            for place in row.places(about):
                try:
                    yield from self.broken(row, place, scope)
                except (BreaksError, CannotEvaluateError):
                    continue

    def broken(self, row: Row, place: Place, scope: _Scope) -> Iterator[Problem]:
        """The problems of a row at one place.

        Raises:
            BreaksError, CannotEvaluateError: the value has another shape than the row expects.
        """
        if row.check:
            check = getattr(import_module(f"trainwright.operators.{self.folder}.rules"), row.check)
            yield from (problem.below(place.pointer) for problem in check(place.value, scope["object"]))
            return
        here = _Scope(self.language, row.let, place.given, scope)
        if here.evaluate(row.must) is not True:
            below, message, write = (here.text(text) for text in (row.place, row.message, row.write))
            yield Problem(row.code, f"{place.pointer}{below}", f"{message} (since {row.since})" if row.since else message, write)


class _Scope:
    """The values that expressions read: known ones, and defined ones, which are evaluated when one is read."""

    def __init__(
        self, language: Language, defined: Mapping[str, Any], known: dict[str, Any], above: _Scope | None = None
    ) -> None:
        self._language, self._defined, self._known, self._above = language, defined, known, above

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if name not in self._defined and self._above is not None:
                return self._above[name]
            value = self._defined[name]
            self._known[name] = self.evaluate(value) if isinstance(value, str) else value
        return self._known[name]

    def evaluate(self, expression: str) -> Any:
        names = _names_in(expression) & self._language.names
        return self._language.compile(expression)({name: self[name] for name in names})

    def text(self, template: str) -> str:
        return _IN_TEXT.sub(lambda match: self._shown(match[1]) if match[1] else match[0][0], template)

    def _shown(self, expression: str) -> str:
        value = self.evaluate(expression)
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@cache
def _names_in(expression: str) -> frozenset[str]:
    """Names that an expression may read, not those of fields."""
    return frozenset(re.findall(r"(?<![.\w])(?<!\.\?)[a-z_]\w*", without_texts(expression)))


def _places(place: Place, pattern: Sequence[str]) -> Iterator[Place]:
    """The places below one that a pattern leads to."""
    if not pattern:
        yield place
        return
    value, first = place.value, pattern[0]
    below: Any = ()
    if isinstance(value, dict):
        below = [(first, value[first])] if first in value else value.items() if "*" in first else ()
    elif isinstance(value, list):
        below = enumerate(value)
    for key, item in below:
        name = str(key)
        if name == first or ("*" in first and fnmatchcase(name, first)):
            keys = (*place.keys, key) if "*" in first else place.keys
            yield from _places(Place(f"{place.pointer}/{escape(name)}", item, value, keys), pattern[1:])


def _referred(reference: Any, owner: Mapping[str, Any], given: Given) -> list[Any]:
    """The object that a reference leads to, in the namespace of its owner, as far as both have one."""
    space = text(owner, "/metadata/namespace")
    found = given.get((text(reference, "/kind"), text(reference, "/name")), ())
    return [_stated(one) for one in found if text(one, "/metadata/namespace", space) == space or not space][:1]


def refusals(manifest: Mapping[str, Any], given: Given = NOTHING) -> Iterator[Problem]:
    """What operators refuse in an object that is complete, with its webhooks' defaults, and the API server in a Job."""
    about = _blocks_by_kind()
    stated = _stated(manifest)
    for each, pattern in (*about.get(str(GroupKind.of(manifest)), ()), *about["*"], *about[PODS]):
        for place in parts(stated, pattern):
            yield from each.refused_in(place, stated, given)


def parts(manifest: Any, about: str) -> Iterator[Place]:
    """The parts of an object that a block is about: at a pattern of pointers, or its pods."""
    above = [Place("", manifest)]
    if about.startswith(PODS):
        above = [Place(pod.pointer.removesuffix("/spec"), pod.template) for pod in pods_in(manifest)]
    for place in above:
        yield from _places(place, tokens(about))


def refused_later(problem: Problem) -> Problem:
    """What the API server refuses in an object that a controller makes: what it is made of is there, and none of its pods."""
    return replace(problem, code="TW711") if problem.code in ("TW704", "TW705") else problem


def block(folder: str, name: str) -> Block:
    """A block that others use by its name."""
    return next(one for one in blocks() if (one.folder, one.name) == (folder, name))


@cache
def blocks() -> tuple[Block, ...]:
    """All blocks of all folders."""
    from trainwright.reading.rows import read_rows

    files = sorted(Path(__file__).parent.glob("*/rules.yaml"))
    read = ((path.parent.name, read_rows(path)) for path in files)
    return tuple(_block(folder, **data) for folder, listed in read for data in listed)


def _block(folder: str, rows: list[dict[str, Any]], source: str = "", code: str = "TW711", **data: Any) -> Block:
    return Block(folder, rows=tuple(Row(**{"source": source, "code": code, **row}) for row in rows), **data)


@cache
def _blocks_by_kind() -> Mapping[str, Sequence[tuple[Block, str]]]:
    """Kind -> its blocks, each with the pointer of the parts that it is about."""
    found: dict[str, list[tuple[Block, str]]] = {"*": [], PODS: []}
    for one in blocks():
        for about in one.objects:
            kind, slash, pointer = about.partition("/")
            found.setdefault(kind, []).append((one, about if kind == PODS else slash + pointer))
    return found


def _stated(value: Any) -> Any:
    """Without nulls, which state nothing."""
    if isinstance(value, dict):
        return {key: _stated(item) if isinstance(item, dict | list) else item for key, item in value.items() if item is not None}
    return [_stated(item) if isinstance(item, dict | list) else item for item in value] if isinstance(value, list) else value


def _ascending(values: list[Any]) -> list[Any]:
    return sorted(set(values))


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "notALabel": not_a_label,
    "notAServiceLabel": not_a_service_label,
    "notASubdomain": not_a_subdomain,
    "notQualified": not_qualified,
    "notALabelValue": not_a_label_value,
    "choose": choose,
    "ascending": _ascending,
}
"""What rows may call besides the functions of the API server: why a name is none, empty where it is one (RFC 1123, RFC 1035, RFC
1123 with dots, the key of a label); what to write instead of a value that is none of a list; and a list in order, each value
once."""
