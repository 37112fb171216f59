"""Shell scripts of the containers. What a user writes never becomes part of one: it comes by environment and arguments."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def script(name: str) -> str:
    """The text of a script beside this module."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def literal(text: str) -> str:
    """A text that Kubernetes passes on as it is: in values and arguments it expands ``$(NAME)``, and turns ``$$`` into ``$``."""
    return text.replace("$", "$$")
