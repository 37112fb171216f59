"""``$(VAR)`` in env, command and args, as Kubernetes expands it (third_party/forked/golang/expansion)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` that has a value; one that has none stays as it is, and ``$$`` becomes ``$``."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _REFERENCE.sub(replace, text)


def unresolved(text: str, values: Mapping[str, str]) -> list[str]:
    """Names that ``text`` refers to and ``values`` does not have."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[1] is not None and match[1] not in values]
