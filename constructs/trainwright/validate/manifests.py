"""Objects in files: several documents in one file, and lists of objects, each with its place.

And plain scalars that kubectl and Argo CD read otherwise than YAML 1.2. Both use sigs.k8s.io/yaml, which follows YAML 1.1 in
places (goyaml.v2/resolve.go): ``yes`` and ``on`` are true there, ``0644`` is 420, ``1_000`` is 1000. A validator that read them
by YAML 1.2 would validate another object than the one that is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.reading.document import Document, parse_yaml, read_text
from trainwright.reading.scalar import Scalar, ScalarError, read_scalar
from trainwright.units import literal
from trainwright.validate.crd import SUFFIXES

_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
"""No scalar can have such a line (yaml.org/spec/1.2.2, rule c-forbidden), so documents can be told apart without parsing."""
_NOTHING = re.compile(r"(?:[ \t]*(?:#.*)?(?:\r?\n|\Z)|%.*(?:\r?\n|\Z))*")

_YAML_1_1_WORDS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_GO_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_GO_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SUSPECT = re.compile(
    rf"^(?! *#)(?:.*[\s\[{{,:]|)(?:{'|'.join(_YAML_1_1_WORDS)}|[-+]?0[0-9a-zA-Z_]\w*|[-+]?[0-9][\w.+-]*_[\w.+-]*)"
    r"(?=\s*(?:$|[,\]}]|:(?:[\s,\]}]|$)|\s#))",
    re.MULTILINE,
)
"""Text without a match has no such scalar; text with a match may have one: from where it may begin to where it may end, in no
comment.
"""

_FILE_MODES = frozenset(("mode", "defaultMode"))
_OCTAL = re.compile(r"0[0-7]+")
"""Permissions such as 0755 are octal to everyone who writes or reviews them, and to kubectl."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as a file states it."""

    data: dict[str, Any]
    document: Document
    pointer: str
    """Where the object is in its document: empty, or ``/items/3`` in a list."""

    def where(self, pointer: str) -> Where:
        return self.document.where(f"{self.pointer}{pointer}")


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Files as they are, folders as the YAML and JSON files below them; each once, and as they are asked for."""
    seen: set[Path] = set()
    for path in paths:
        below = (item for item in path.rglob("*") if item.suffix in SUFFIXES and item.is_file())
        for file in sorted(below) if path.is_dir() else [path]:
            if file not in seen:
                seen.add(file)
                yield file


def read_manifests(path: Path) -> tuple[list[Manifest], list[Finding]]:
    """The objects of a file, and findings for what cannot be read."""
    shown = path.as_posix()
    try:
        text = read_text(path, shown)
    except CompileError as error:
        return [], list(error.findings)
    return manifests_in(text, shown)


def manifests_in(text: str, shown: str) -> tuple[list[Manifest], list[Finding]]:
    """The same of a text; ``shown`` is the name that findings give its file."""
    manifests: list[Manifest] = []
    findings: list[Finding] = []
    for part in documents_in(text):
        try:
            document = parse_yaml(part, shown, read_as_applied)
        except CompileError as error:
            findings.extend(error.findings)
            continue
        findings.extend(ambiguous_scalars(part, shown))
        for item in _objects(document):
            manifests.append(item) if isinstance(item, Manifest) else findings.append(item)
    return manifests, findings


def read_objects(path: Path) -> list[dict[str, Any]]:
    """Every object of a file.

    Raises:
        CompileError: with the line of each thing that cannot be read as one.
    """
    manifests, findings = read_manifests(path)
    if errors := [one for one in findings if one.severity is Severity.ERROR]:
        raise CompileError(errors)
    return [one.data for one in manifests]


def documents_in(text: str) -> Iterator[str]:
    """Each document of a YAML text, after an empty line for each line before it, so that its lines keep their numbers."""
    markers = list(_MARKER.finditer(text))
    ends = [marker.start() for marker in markers] + [len(text)]
    for start, end in zip([0, *(marker.end() for marker in markers)], ends, strict=True):
        if not _NOTHING.fullmatch(text, start, end):
            line_start = text.rfind("\n", 0, start) + 1
            yield "\n" * text.count("\n", 0, start) + " " * (start - line_start) + text[start:end]


def _objects(document: Document) -> Iterator[Manifest | Finding]:
    if not str(document.data.get("kind")).endswith("List") or not isinstance(document.data.get("items"), list):
        yield Manifest(document.data, document, "")
        return
    for index, item in enumerate(document.data["items"]):
        pointer = f"/items/{index}"
        if isinstance(item, dict):
            yield Manifest(item, document, pointer)
        else:
            yield found(
                "TW709",
                document.where(pointer),
                "an item of a List must be an object",
                "write a mapping with apiVersion and kind",
            )


def ambiguous_scalars(text: str, file: str) -> Iterator[Finding]:
    """A finding for each such scalar of a YAML text that can be parsed."""
    if not _SUSPECT.search(text):
        return  # parsing takes a hundred times as long
    from ruamel.yaml import YAML

    key = ""
    for event in YAML(typ="safe", pure=True).parse(text):
        if type(event).__name__ != "ScalarEvent":
            continue
        before, key = key, event.value
        if event.style or event.tag or not is_ambiguous(event.value):
            continue
        if before in _FILE_MODES and _OCTAL.fullmatch(event.value):
            continue
        where = Where(file, event.start_mark.line + 1, event.start_mark.column + 1)
        meaning = literal(read_by_kubectl(event.value))
        fix = f'write {meaning}, or "{event.value}" in quotes if it is text'
        yield found("TW712", where, f"kubectl and Argo CD read `{event.value}` as {meaning}", fix)


def is_ambiguous(scalar: str) -> bool:
    """Whether kubectl reads a plain scalar as another value than YAML 1.2."""
    try:
        ours = read_scalar(scalar)
    except ScalarError:
        return False  # refused already
    theirs = read_by_kubectl(scalar)
    return ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool)


def read_as_applied(scalar: str) -> Scalar:
    """The value of a plain scalar in the object that is applied.

    Raises:
        ScalarError: JSON cannot hold it.
    """
    return read_by_kubectl(scalar) if is_ambiguous(scalar) else read_scalar(scalar)


def read_by_kubectl(scalar: str) -> Scalar:
    """The value of a plain scalar other than null, as goyaml.v2 resolves it. A date stays text."""
    if scalar in _YAML_1_1_WORDS:
        return _YAML_1_1_WORDS[scalar]
    if not scalar or scalar[0] not in "+-0123456789":
        return read_scalar(scalar)
    plain = scalar.replace("_", "")
    if number := _GO_INTEGER.fullmatch(plain):
        sign, *digits = number.groups()
        value = next(int(text, base) for text, base in zip(digits, (16, 2, 8, 10), strict=True) if text)
        return -value if sign == "-" else value
    return float(plain) if _GO_FLOAT.fullmatch(plain) else scalar
