"""Text that is tokenized already: bare token ids in files that are mapped into memory, and the record beside each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright_trainer.contract.data import TokenFiles
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Array, Dataset
from trainwright_trainer.data.files import Stream, reading
from trainwright_trainer.data.order import SampleIds, Samples

SUFFIX = ".bin"
STRETCHES = 64
"""The text is cut into so many equal stretches, and the end of each is held out: every part of it is evaluated on."""


class Sequences:
    """Columns ``inputs`` and ``targets``, unsigned ``(n, sequence_length)``: targets are the inputs' next tokens.

    All files are one text, in name order. Sequence ``i`` starts at token ``i * sequence_length`` and has one token more than
    that, so its last target is the first input of the next one; what does not fill a sequence at the very end is left out.
    """

    def __init__(self, stream: Stream, data: TokenFiles, portion: Portion, vocabulary: int | None) -> None:
        self._stream, self._portion, self._vocabulary = stream, portion, vocabulary
        self._length, self._dtype = data.sequence_length, _dtype(data)

    def __len__(self) -> int:
        return len(self._portion)

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """Raises :class:`DataError` for a token that is not in the vocabulary."""
        starts = self._portion.numbers(np.maximum(samples.ids, 0)) * self._length
        tokens = np.empty((len(samples), self._length + 1), dtype=self._dtype)
        for row, start in zip(tokens, starts.tolist(), strict=True):
            self._stream.read_into(row.view(np.uint8), start * self._dtype.itemsize)
        if self._vocabulary is not None and tokens.size and int(tokens.max()) >= self._vocabulary:
            raise self._unknown_token(tokens, starts.tolist(), self._vocabulary)
        return {"inputs": tokens[:, :-1], "targets": tokens[:, 1:]}

    def _unknown_token(self, tokens: Array, starts: list[int], vocabulary: int) -> DataError:
        row, column = np.unravel_index(int(tokens.argmax()), tokens.shape)
        place = (starts[int(row)] + int(column)) * self._dtype.itemsize
        file = self._stream.file_at(place)
        token = (place - int(self._stream.starts[file])) // self._dtype.itemsize
        return DataError(
            f"token {token:,} of {self._stream.paths[file]} is {tokens[row, column]:,}, and the vocabulary has {vocabulary:,}: "
            "it was made by another tokenizer, or its ids are not as wide as data.dtype says"
        )


def load(data: TokenFiles, model_vocabulary: int | None = None) -> Dataset:
    """Open the files; nothing but a sample of them is read.

    Held out is the end of each of 64 equal stretches of the text. ``model_vocabulary`` bounds the ids where neither the run nor
    a record beside the files does.

    Raises:
        DataError: The files are missing, empty, cut off, too few, or not what the run says they are.
    """
    paths = _files(Path(data.path))
    records = {path: record for path in paths if (record := read_record(path)) is not None}
    stream = Stream(paths)
    for number, path in enumerate(paths):
        _check_file(data, path, int(stream.starts[number + 1] - stream.starts[number]), records.get(path))
    vocabulary = _vocabulary(data, records) or model_vocabulary
    train, held_out = divide(_count(data, stream), data.held_out)
    if not len(train) or not len(held_out):
        raise DataError(
            f"data.held_out {data.held_out} of {len(train) + len(held_out):,} sequences leaves one split empty; "
            "give it more tokens, or change data.held_out"
        )
    digest = hashlib.sha256(f"tokens v1:{data.sequence_length}:{data.dtype}:{data.held_out!r}:".encode())
    digest.update(stream.sample())
    return Dataset(
        Sequences(stream, data, train, vocabulary), Sequences(stream, data, held_out, vocabulary), digest.hexdigest(),
        vocabulary,
    )


def _dtype(data: TokenFiles) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Little-endian, whatever this machine is."""
    return np.dtype("<u2") if data.dtype == "uint16" else np.dtype("<u4")


def _files(path: Path) -> list[Path]:
    with reading(path):
        if not path.is_dir():
            path.stat()
            return [path]
        found = sorted((entry for entry in path.iterdir() if entry.suffix == SUFFIX), key=lambda entry: entry.name)
    if not found:
        raise DataError(f"no {SUFFIX} file in {path}; write one with `trainwright-trainer tokenize`")
    return found


def _check_file(data: TokenFiles, path: Path, size: int, record: TokenRecord | None) -> None:
    width = _dtype(data).itemsize
    if record is not None and record.dtype != data.dtype:
        raise DataError(f"{path} was written as {record.dtype}, and data.dtype is {data.dtype}; set it to {record.dtype}")
    if size % width:
        raise DataError(
            f"{path} has {size:,} bytes, which is not a multiple of the {width} of a {data.dtype}: it was cut off, or "
            "holds more than ids"
        )
    if record is not None and record.tokens != size // width:
        raise DataError(f"{path} has {size // width:,} tokens, and its record says {record.tokens:,}: it was cut off or replaced")


def _vocabulary(data: TokenFiles, records: Mapping[Path, TokenRecord]) -> int | None:
    """Tokens that the ids were made with, where the run or a record says so."""
    first: Path | None = None
    for path, record in records.items():
        first = first or path
        if record.tokenizer != records[first].tokenizer:
            raise DataError(f"{first} and {path} were made by different tokenizers")
        if data.vocabulary is not None and record.vocabulary > data.vocabulary:
            raise DataError(
                f"{path} was made by a tokenizer of {record.vocabulary:,} tokens, and data.vocabulary is {data.vocabulary:,}"
            )
    return data.vocabulary or (records[first].vocabulary if first else None)


def _count(data: TokenFiles, stream: Stream) -> int:
    tokens = len(stream) // _dtype(data).itemsize
    count = (tokens - 1) // data.sequence_length
    if count < 1:
        raise DataError(f"{data.path} has {tokens:,} tokens, too few for one sequence of {data.sequence_length}")
    if data.samples is not None and data.samples != count:
        raise DataError(f"{data.path} has {count:,} sequences of {data.sequence_length}, and data.samples is {data.samples:,}")
    return count


class Portion:
    """One split of a numbered whole: from the split's ids to numbers in the whole."""

    def __init__(self, starts: SampleIds, numbers: SampleIds, size: int) -> None:
        self._starts, self._shifts, self._size = starts, numbers - starts, size

    def __len__(self) -> int:
        return self._size

    def numbers(self, ids: SampleIds) -> SampleIds:
        """Numbers in the whole, shape ``(n,)``. Ids are at least 0 and below the length."""
        return ids + self._shifts[np.searchsorted(self._starts, ids, side="right") - 1]


def divide(size: int, share: float) -> tuple[Portion, Portion]:
    """Cut ``size`` samples into those for training and ``round(size * share)`` held-out ones; either may be empty."""
    held_out = round(size * share)
    train = size - held_out
    # Fewer stretches than samples on either side, so that none is empty and the starts ascend.
    stretches = max(1, min(STRETCHES, held_out, train))
    cuts = np.arange(stretches + 1, dtype=np.int64)
    train_starts, held_out_starts = cuts * train // stretches, cuts * held_out // stretches
    return (
        Portion(train_starts[:-1], train_starts[:-1] + held_out_starts[:-1], train),
        Portion(held_out_starts[:-1], held_out_starts[:-1] + train_starts[1:], held_out),
    )


class TokenRecord(BaseModel):
    """What ``trainwright-trainer tokenize`` knows of the file that it wrote."""

    model_config = ConfigDict(frozen=True)

    format: Literal["trainwright tokens v1"] = "trainwright tokens v1"
    dtype: Literal["uint16", "uint32"]
    """Width of one token id, little-endian."""
    tokens: int = Field(ge=1)
    """In the file, ends of documents included."""
    documents: int = Field(ge=1)
    vocabulary: int = Field(ge=1)
    """Tokens of the tokenizer; every id is below it."""
    tokenizer: str = Field(min_length=1)
    """``bytes``, or the digest of the ``tokenizer.json``."""
    end_of_text: int = Field(ge=0)
    """Token after each document."""


def record_path(tokens: Path) -> Path:
    """``text.bin`` has its record in ``text.bin.json``."""
    return tokens.with_name(f"{tokens.name}.json")


def read_record(tokens: Path) -> TokenRecord | None:
    """The record of a file of tokens; None where another program wrote the file.

    Raises:
        DataError: There is something else in its place.
    """
    path = record_path(tokens)
    if not path.exists():
        return None
    with reading(path):
        text = path.read_bytes()
    try:
        return TokenRecord.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(key) for key in error.errors()[0]["loc"]) or "the file"
        raise DataError(
            f"{path} does not say how {tokens.name} was tokenized ({where}: {error.errors()[0]['msg']}); "
            "write both again with `trainwright-trainer tokenize`, or remove it"
        ) from None
