"""Objects in files: several documents in one file, and lists of objects, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.reading.document import Document, parse_yaml, read_text
from trainwright.validate.crd import SUFFIXES
from trainwright.validate.yaml11 import ambiguous_scalars

_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
"""No scalar can have such a line (yaml.org/spec/1.2.2, rule c-forbidden), so documents can be told apart without parsing."""
_NOTHING = re.compile(r"(?:[ \t]*(?:#.*)?(?:\r?\n|\Z)|%.*(?:\r?\n|\Z))*")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as a file states it."""

    data: dict[str, Any]
    document: Document
    pointer: str
    """Of the object in its document: empty, or ``/items/3`` in a list."""

    def where(self, pointer: str) -> Where:
        return self.document.where(f"{self.pointer}{pointer}")


def files_below(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the YAML and JSON files below them."""
    found_files: dict[Path, None] = {}
    for path in paths:
        below = (
            sorted(item for item in path.rglob("*") if item.suffix in SUFFIXES and item.is_file()) if path.is_dir() else [path]
        )
        found_files.update(dict.fromkeys(below))
    return list(found_files)


def read_manifests(path: Path) -> tuple[list[Manifest], list[Finding]]:
    """The objects of a file, and what cannot be read of it."""
    shown = path.as_posix()
    try:
        text = read_text(path, shown)
    except CompileError as error:
        return [], list(error.findings)
    manifests: list[Manifest] = []
    findings: list[Finding] = []
    for part in documents_in(text):
        try:
            document = parse_yaml(part, shown)
        except CompileError as error:
            findings.extend(error.findings)
            continue
        findings.extend(ambiguous_scalars(part, shown))
        for item in _objects(document):
            manifests.append(item) if isinstance(item, Manifest) else findings.append(item)
    return manifests, findings


def documents_in(text: str) -> Iterator[str]:
    """Each document of a YAML text, below as many empty lines as stand before it, so that its lines keep their numbers."""
    markers = list(_MARKER.finditer(text))
    ends = [marker.start() for marker in markers] + [len(text)]
    for start, end in zip([0, *(marker.end() for marker in markers)], ends, strict=True):
        if not _NOTHING.fullmatch(text, start, end):
            line_start = text.rfind("\n", 0, start) + 1
            yield "\n" * text.count("\n", 0, start) + " " * (start - line_start) + text[start:end]


def _objects(document: Document) -> Iterator[Manifest | Finding]:
    if document.data.get("kind") != "List" or not isinstance(document.data.get("items"), list):
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
