"""References as Kubernetes expands them in commands and variables, before any shell starts."""

from __future__ import annotations

import re

REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")
"""``$(NAME)``. Of ``$$`` it makes one dollar sign, so that ``$$(NAME)`` is text."""


def references_in(text: str) -> list[str]:
    """Names that Kubernetes looks up."""
    return [name for name in REFERENCE.findall(text) if name]
