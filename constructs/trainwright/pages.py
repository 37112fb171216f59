"""Pages of the docs that the compiler reads and prints: a wheel brings them, and a clone has them in ``docs/``."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
PLACES = (PACKAGE / "pages", PACKAGE.parents[1] / "docs")


def page_path(name: str) -> Path:
    """Where a page such as ``findings/TW203``, or a folder of pages, is.

    Raises:
        KeyError: if there is none.
    """
    for folder in PLACES:
        for path in (folder / f"{name}.md", folder / name):
            if path.exists():
                return path
    raise KeyError(name)


def page_text(name: str) -> str:
    """A page for a terminal: links are words, and code has no fences."""
    path = page_path(name)
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
