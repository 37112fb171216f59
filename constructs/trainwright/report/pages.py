"""Pages of the docs that commands print: a wheel brings them, and a clone has them in ``docs/``."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PLACES = (PACKAGE / "pages", PACKAGE.parents[1] / "docs")


def page_text(name: str) -> str:
    """A page such as ``findings/TW203`` for a terminal: links are words, and code has no fences."""
    path = next(path for folder in PLACES if (path := folder / f"{name}.md").is_file())
    text = re.sub(r"\[([^\]]+)\]\([^)\s]*\)", r"\1", path.read_text(encoding="utf-8"))
    *parts, last = re.split(r"^```(.*)\n([\s\S]*?)^```\n", text, flags=re.MULTILINE)
    shown = [part if at % 3 == 0 else _file(part) if at % 3 == 1 else _indented(part) for at, part in enumerate(parts)]
    return "".join([*shown, last]).rstrip("\n")


def _file(info: str) -> str:
    """The file that a block is of, above it."""
    name = info.partition(" ")[2]
    return f"{name}:\n\n" if name else ""


def _indented(code: str) -> str:
    return re.sub(r"^(?=.)", "    ", code, flags=re.MULTILINE)
