"""Why a line of ``dist/`` is as it is: recomputed from the run, never written into the YAML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from yaml import YAMLError

from trainwright.findings import CompileError, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import escape, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.provenance import answer_for
from trainwright.manifest.written import nodes
from trainwright.project.built import Output


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer for one line."""

    line: int
    pointer: str
    """``/Kind/path``, and ``#/path`` for a place inside a file that the object holds."""
    text: str
    where: Where | None
    """The line of the user's file that decides it, where there is one."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Place:
    document: int
    pointer: str
    payload: str | None = None
    """Pointer inside a JSON file that the value holds."""


class Explainer:
    """Answers for every line of one file of ``dist/``."""

    def __init__(self, text: str, shown: str, output: Output) -> None:
        """For the ``text`` of the file that ``output`` became.

        Raises:
            CompileError: TW503, where the file no longer holds the objects that were written.
        """
        self._lines = text.removesuffix("\n").split("\n")
        self._documents = _compose(text, shown)
        self._kinds = [_kind(document) for document in self._documents]
        if self._kinds != [GroupKind.of(manifest) for manifest in output.manifests]:
            raise _edited(shown, f"it does not hold the objects that {output.change} makes")
        self._provenance = output.provenance()
        self._reasons = output.reasons
        self._locators = [output.locators.get(index, output.locator) for index in range(len(self._documents))]
        self._payloads = output.payloads()
        self._places = self._map_lines()

    def line(self, number: int) -> Explanation | None:
        """The answer for a line, counted from 1; None only past the end of the file."""
        if not 1 <= number <= len(self._lines):
            return None
        text = self._lines[number - 1].strip()
        place = self._places.get(number)
        if place is None:
            comment = "states the plan, for those who review it" if text.startswith("#") else "separates two objects of the file"
            return Explanation(number, "", text, None, comment)
        return self._explain(number, place, text)

    def pointer(self, pointer: str) -> Explanation | None:
        """The answer for ``/Kind/path``; None where no line has it."""
        for number in range(1, len(self._lines) + 1):
            answer = self.line(number)
            if answer and answer.pointer == pointer:
                return answer
        return None

    def all(self) -> Iterator[Explanation]:
        """Every line in order."""
        for number in range(1, len(self._lines) + 1):
            answer = self.line(number)
            if answer:
                yield answer

    def _explain(self, number: int, place: _Place, text: str) -> Explanation:
        kind = self._kinds[place.document]
        if place.payload is None:
            known, reasons, pointer = self._provenance[place.document], self._reasons.get(kind, {}), place.pointer
            shown = f"/{kind.kind}{pointer}"
        else:
            known, reasons, pointer = self._payloads[_key(place.pointer)], {}, place.payload
            shown = f"/{kind.kind}{place.pointer}#{pointer}"
        found_at, answer = answer_for(known, reasons, pointer)
        # the same keys below: a value that was passed through is found at its own line of the user's file
        where = self._locators[place.document].source(answer.source, pointer.removeprefix(found_at))
        return Explanation(number, shown, text, where, answer.reason)

    def _map_lines(self) -> dict[int, _Place]:
        places: dict[int, _Place] = {}
        for index, document in enumerate(self._documents):
            for pointer, first, last, node in _walk(document, ""):
                for line in range(first, last + 1):
                    places[line] = _Place(index, pointer)
                if getattr(node, "style", None) == "|" and _key(pointer) in self._payloads:
                    for line, payload in _payload_lines(node, first):
                        places[line] = _Place(index, pointer, payload)
        return places


def _key(pointer: str) -> str:
    """Key of a ConfigMap's data."""
    first, *rest = tokens(pointer)
    return rest[0] if first == "data" and len(rest) == 1 else ""


def _compose(text: str, shown: str) -> list[Any]:
    """The node graph of each document, with the lines of every node.

    Raises:
        CompileError: where the file is not YAML any more.
    """
    try:
        documents = list(nodes(text))
    except YAMLError as error:
        raise _edited(shown, f"it is not YAML any more: {(str(error) or type(error).__name__).splitlines()[0]}") from error
    seen: set[int] = set()
    waiting = list(documents)
    while waiting:
        node = waiting.pop()
        entries = (
            [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
            if isinstance(node.value, list)
            else []
        )
        if id(node) in seen or any(isinstance(entry, tuple) and not isinstance(entry[0].value, str) for entry in node.value):
            raise _edited(shown, "it holds an alias, or a key that is not text")
        seen.add(id(node))
        waiting += entries
    return documents


def _edited(shown: str, message: str) -> CompileError:
    return CompileError([found("TW503", Where(shown), message, "run `trainwright synth`, which restores it")])


def _walk(node: Any, pointer: str) -> Iterator[tuple[str, int, int, Any]]:
    """Every key and item with the lines it covers, parents before children."""
    if isinstance(node.value, list):
        for number, entry in enumerate(node.value):
            key, value = entry if isinstance(entry, tuple) else (None, entry)
            below = f"{pointer}/{escape(key.value) if key is not None else number}"
            first = (key or value).start_mark.line + 1
            last = value.end_mark.line + (1 if value.end_mark.column else 0)
            yield below, first, max(first, last), value
            yield from _walk(value, below)


def _payload_lines(node: Any, first: int) -> Iterator[tuple[int, str]]:
    """Lines of a JSON file inside a block scalar, which begins on the line after its key."""
    documents = _compose(node.value, "")
    if documents:
        for line in range(first + 1, first + 1 + len(node.value.splitlines())):
            yield line, ""
        for pointer, start, last, _ in _walk(documents[0], ""):
            for line in range(start, last + 1):
                yield first + line, pointer


def _kind(document: Any) -> GroupKind:
    return GroupKind.of({"apiVersion": _child(document, "apiVersion"), "kind": _child(document, "kind")})


def _child(node: Any, key: str) -> str | None:
    entries = node.value if isinstance(node.value, list) else []
    return next((entry[1].value for entry in entries if isinstance(entry, tuple) and entry[0].value == key), None)
