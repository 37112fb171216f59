"""Pages of findings, and the projects that their examples make."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.reading.document import parse_yaml, read_yaml

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "findings"
BASE = Path(__file__).parent / "project"

_FENCE = re.compile(r"^```(\w+) ?(.*)\n([\s\S]*?)^```$", re.MULTILINE)
_KINDS = ("kind", "architecture", "source")
"""Keys that choose between forms of a mapping: another form replaces the mapping as a whole."""


@dataclass(frozen=True)
class Block:
    """One fenced block: a file, a part of one, or commands."""

    language: str
    file: str
    whole: bool
    text: str


@dataclass(frozen=True)
class Page:
    title: str
    severity: str
    sections: Mapping[str, tuple[Block, ...]]
    """Heading -> its blocks."""


def read_page(code: str) -> Page:
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, severity = [line for line in head.splitlines() if line][:2]
    return Page(title, severity, {part.partition("\n")[0]: _blocks(part) for part in sections})


def _blocks(text: str) -> tuple[Block, ...]:
    blocks = []
    for language, info, body in _FENCE.findall(text):
        file, _, mode = info.partition(" ")
        blocks.append(Block(language, file, mode == "(whole file)" or language == "python", body))
    return tuple(blocks)


def write_example(blocks: tuple[Block, ...], project: Path) -> None:
    """A copy of the base project with an example's files in place."""
    shutil.copytree(BASE, project)
    for block in blocks:
        path = project / block.file
        if block.file.endswith(".py"):
            path.with_suffix(".yaml").unlink()
        if block.whole:
            path.write_text(block.text, encoding="utf-8")
        elif block.file:
            merged = overlay(read_yaml(path).data, parse_yaml(block.text, block.file).data)
            path.write_text(json.dumps(merged, indent=1), encoding="utf-8")  # JSON is YAML 1.2


def overlay(base: Any, change: Any) -> Any:
    """Mappings merge and keep their order, null removes a key, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    if any(key in change and key in base and change[key] != base[key] for key in _KINDS):
        return change
    merged = base | {key: overlay(base.get(key), value) for key, value in change.items()}
    return {key: value for key, value in merged.items() if value is not None}
