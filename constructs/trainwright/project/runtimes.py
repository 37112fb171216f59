"""The files of installed runtimes, which a profile names by their digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.reading.document import Document, from_here, read_yaml


def with_runtimes(document: Document, profile: Path) -> Document:
    """A profile with what its files of runtimes say. A file that cannot be read is a TW101 or TW102 of its own.

    Raises:
        CompileError: as :func:`~trainwright.reading.document.read_yaml`.
    """
    runtimes = document.data.get("runtimes")
    if not isinstance(runtimes, dict):
        return document
    return document._replace(data={**document.data, "runtimes": {name: _read(one, profile) for name, one in runtimes.items()}})


def _read(entry: Any, profile: Path) -> Any:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(file, str) or "manifest" in entry:
        return entry
    path = profile.parent / file
    return {**entry, "manifest": read_yaml(path, from_here(path)).data}
