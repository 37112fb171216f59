"""Documents, one at a time, from text files, JSON lines and data sets on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.files import reading
from trainwright_trainer.data.hf_dataset import MARKERS, open_saved

JSON_LINES = (".jsonl", ".ndjson")
TEXT = (".txt", ".md")
PIECE_CHARACTERS = 4 * 2**20
"""A longer text file is tokenized in pieces, so that no file is too large for the memory."""


class Piece(NamedTuple):
    """A document, or a part of a long one."""

    text: str
    ends: bool
    """Whether the document ends here."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from, in the order given.

    A file of JSON lines holds a document a line. Any other file is one document in UTF-8. A directory is a data set that
    ``datasets`` saved, or stands for the text files and files of JSON lines below it, in the order of their paths.
    """

    inputs: Sequence[Path]
    column: str
    """Of JSON lines and data sets."""
    split: str
    """Of a saved ``DatasetDict``."""

    def pieces(self) -> Iterator[Piece]:
        """Every document that holds text, in pieces of at most 4 Mi characters that end at a line's end where there is one.

        Raises:
            DataError: An input is missing, or is not what its name says; the message names the line or row.
            StorageError: The volume failed.
        """
        for path in self.inputs:
            with reading(path):
                path.stat()
                if path.is_dir() and any((path / marker).exists() for marker in MARKERS):
                    yield from self._rows(path)
                elif path.is_dir():
                    for file in _files(path):
                        yield from self._file(file)
                else:
                    yield from self._file(path)

    def _file(self, path: Path) -> Iterator[Piece]:
        with reading(path):
            yield from self._lines(path) if path.suffix in JSON_LINES else _text(path)

    def _lines(self, path: Path) -> Iterator[Piece]:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    found = json.loads(line)
                except ValueError as error:
                    raise DataError(f"line {number:,} of {path} is not JSON: {error}") from None
                if not isinstance(found, dict) or self.column not in found:
                    raise DataError(f"line {number:,} of {path} has no key {self.column}; name another one with --column")
                yield from _document(found[self.column], f"line {number:,} of {path}", self.column)

    def _rows(self, path: Path) -> Iterator[Piece]:
        rows = open_saved(path, (self.split,))[self.split]
        if self.column not in rows.features:
            raise DataError(f"{self.split} in {path} has no column {self.column}; it has {', '.join(rows.features)}")
        number = 0
        for batch in rows.with_format(None).select_columns([self.column]).iter(batch_size=100):
            for value in batch[self.column]:
                yield from _document(value, f"row {number:,} of {self.split} in {path}", self.column)
                number += 1


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix in (*TEXT, *JSON_LINES) and path.is_file())
    if not found:
        raise DataError(f"no {', '.join((*TEXT, *JSON_LINES))} file below {folder}, and no data set that `save_to_disk` wrote")
    return found


def _document(value: Any, where: str, column: str) -> Iterator[Piece]:
    if not isinstance(value, str):
        raise DataError(f"{column} in {where} is {'missing' if value is None else f'not text: {value!r:.40}'}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can write half of a surrogate pair, which no UTF-8 can
            raise DataError(f"{column} in {where} holds half of a surrogate pair, which is not a character") from None
    if value:
        yield Piece(value, ends=True)


def _text(path: Path) -> Iterator[Piece]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rest = file.read(PIECE_CHARACTERS)
            while rest:
                more = file.read(PIECE_CHARACTERS)
                # Within a line, tokens would come out otherwise than for the whole text.
                cut = (rest.rfind("\n") + 1 or len(rest)) if more else len(rest)
                yield Piece(rest[:cut], ends=not more)
                rest = rest[cut:] + more
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None
