"""The pages of the documentation, and the blocks in them that the code answers for.

A block between ``<!-- generated: NAME -->`` and ``<!-- end -->``, or the output of a command, is compared with what the code
says; ``pytest tests/test_docs.py tests/docs --snapshot-update`` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.reading.document import parse_yaml

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "trainer" / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "guides").glob("*.md")),
    DOCS / "findings" / "README.md",
]
FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<what>[^\n]+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"<!-- generated: (?P<name>[-\w]+) -->\n\n(?P<body>.*?)\n?<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    what: str
    """The rest of the line that opens it."""
    body: str

    @property
    def id(self) -> str:
        return f"{self.page.name}: {self.what}"

    @property
    def data(self) -> dict[str, Any]:
        """What it holds, where it is YAML."""
        return parse_yaml(self.body, self.id).data


def blocks(page: Path) -> Iterator[Block]:
    """Those that say what they are."""
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if match["what"]:
            yield Block(page, match["language"], match["what"], match["body"])


def generated(page: Path) -> dict[str, str]:
    """Name -> text of each generated block."""
    return {match["name"]: match["body"] for match in GENERATED.finditer(page.read_text(encoding="utf-8"))}


def rewrite(page: Path, old: str, new: str) -> None:
    """Replace a text that is there once."""
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{page.name} has {text.count(old)} times: {old}"
    page.write_text(text.replace(old, new), encoding="utf-8")


def regenerate(page: Path, name: str, body: str) -> None:
    """Replace a generated block."""
    (match,) = (match for match in GENERATED.finditer(page.read_text(encoding="utf-8")) if match["name"] == name)
    rewrite(page, match[0], f"<!-- generated: {name} -->\n\n{body}\n<!-- end -->")
