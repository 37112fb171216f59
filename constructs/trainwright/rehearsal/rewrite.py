"""Rewriting of paths and host names.

Local processes see the host's file system and the host's names, so what a container would find through a mount or through DNS is
replaced in text: in command, arguments, environment and the mounted files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

Rewrite = Callable[[str], str]

_BEFORE = r"(?:(?<![\w./\-~+@%])|(?<=file://))"
_AFTER = r"(?![\w.\-~+@%])"


class PathRewriter:
    """Replaces mount paths where they stand as whole path tokens: ``/data`` in ``--from=/data/x``, not in ``/mnt/data``."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = {path: str(folder) for path, folder in folders.items()}
        longest_first = sorted(self._folders, key=len, reverse=True)
        self._paths = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, longest_first))}){_AFTER}") if longest_first else None

    def __call__(self, text: str) -> str:
        return text if self._paths is None else self._paths.sub(lambda match: self._folders[match[1]], text)
