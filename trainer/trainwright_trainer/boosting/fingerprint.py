"""Fingerprint of a table: enough to notice other data on a resume, without reading all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from trainwright_trainer.contract.data import Table
from trainwright_trainer.data.files import Stream


def fingerprint(table: Table, files: Sequence[Path]) -> str:
    """Digest of the format, the label's name, the files' names, and :meth:`Stream.sample` of the files in the order given.

    Raises :class:`DataError` where a file is missing or empty.
    """
    names = [file.name for file in files]
    digest = hashlib.sha256(f"table v1:{table.format}:{table.label!r}:{names!r}:".encode(errors="backslashreplace"))
    digest.update(Stream(files).sample())
    return digest.hexdigest()
