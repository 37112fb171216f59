"""References as Kubernetes expands them in commands and variables, before any shell starts."""

from __future__ import annotations

import re
from collections.abc import Mapping

REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")
"""``$(NAME)``. Of ``$$`` it makes one dollar sign, so that ``$$(NAME)`` is text."""


def references_in(text: str) -> list[str]:
    """Names that Kubernetes looks up."""
    return [name for name in REFERENCE.findall(text) if name]


_EXPANDED = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)
"""The same with any text as a name, as the kubelet reads it; what a shell would run is none that a reader means."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` that has a value; one that has none stays as it is, and ``$$`` becomes ``$``.

    As in Kubernetes' third_party/forked/golang/expansion.
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _EXPANDED.sub(replace, text)


def unresolved(text: str, values: Mapping[str, str]) -> list[str]:
    """Names that ``text`` refers to and ``values`` does not have."""
    return [match[1] for match in _EXPANDED.finditer(text) if match[1] is not None and match[1] not in values]
