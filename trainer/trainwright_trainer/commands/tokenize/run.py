"""Tokenizing: documents in, one file of bare token ids out, which is there whole, with its record, or not at all.

Texts become ids by a local tokenizer or byte by byte.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import numpy as np
import numpy.typing as npt

from trainwright_trainer.checkpoint.storage import replace_file, storage_errors, sync_directory
from trainwright_trainer.commands.tokenize.documents import Piece, Source
from trainwright_trainer.contract.data import BYTE_VOCABULARY, UINT16_TOKENS
from trainwright_trainer.contract.failures import DataError, InvalidRunError
from trainwright_trainer.data.token_files import TokenRecord, record_path
from trainwright_trainer.data.tokenizer import TextTokenizer

BYTES = "bytes"

_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[SEP]")

Ids = npt.NDArray[np.int64]


class Encoder(Protocol):
    """What makes tokens."""

    vocabulary: int
    """Every id is below it."""
    end_of_text: int
    """Token after each document."""
    name: str
    """``bytes``, or the digest of the tokenizer."""

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text, without any special token."""


class ByteEncoder:
    """One token a byte of UTF-8. Byte 0 ends a text, and is left out of texts that hold it."""

    vocabulary, end_of_text, name = BYTE_VOCABULARY, 0, BYTES

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        return [np.frombuffer(text.replace("\0", "").encode(), dtype=np.uint8).astype(np.int64) for text in texts]


class FileEncoder:
    """A ``tokenizer.json``. The name of a special token that stands in a text is read as text."""

    def __init__(self, tokenizer: TextTokenizer, end_of_text: str | None) -> None:
        self._library = tokenizer.library
        self._library.encode_special_tokens = True
        self._library.no_truncation()
        self._library.no_padding()
        self.vocabulary, self.name = tokenizer.vocabulary, tokenizer.digest
        self.end_of_text = _end_of_text(tokenizer, end_of_text)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]


def build_encoder(tokenizer: str, end_of_text: str | None) -> Encoder:
    """The encoder for ``bytes`` or a path.

    Raises:
        DataError: There is no tokenizer at the path.
        InvalidRunError: It has no such token for the end of a text.
    """
    if tokenizer != BYTES:
        return FileEncoder(TextTokenizer(Path(tokenizer)), end_of_text)
    if end_of_text is not None:
        raise InvalidRunError("--end-of-text names a token of a tokenizer.json; bytes ends each document with byte 0")
    return ByteEncoder()


def _end_of_text(tokenizer: TextTokenizer, wanted: str | None) -> int:
    for name in (wanted,) if wanted else _ENDS:
        found = tokenizer.token_id(name)
        if found is not None:
            return found
    if wanted:
        raise InvalidRunError(f"{tokenizer.path} has no token {wanted}")
    raise InvalidRunError(f"{tokenizer.path} has none of {', '.join(_ENDS)}: name the token after a document with --end-of-text")


BATCH_CHARACTERS = 4 * 2**20
"""Texts that are tokenized at once, on all cores: what the memory holds, with their tokens."""

Width = Literal["uint16", "uint32"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to tokenize, how, and where to."""

    source: Source
    output: Path
    tokenizer: str
    """``bytes``, or a ``tokenizer.json`` or its directory."""
    end_of_text: str | None = None
    """Token after each document; None for the tokenizer's own."""
    dtype: Width | None = None
    """Of the ids; None for the narrowest."""


def tokenize(request: Request) -> TokenRecord:
    """Write the file and its record.

    Raises:
        DataError: An input or the tokenizer is missing, or is not what it should be.
        InvalidRunError: The request cannot be carried out as it is.
        StorageError: A volume failed, or is full.
    """
    # The library's threads are the processes of this command. It forks no others, which they would not survive.
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    encoder = build_encoder(request.tokenizer, request.end_of_text)
    dtype = _width(request.dtype, encoder.vocabulary)
    with drafting(request.output) as draft:
        tokens, documents = _write(request.source.pieces(), encoder, dtype, draft)
        if not documents:
            raise DataError(f"{', '.join(map(str, request.source.inputs))} hold no text")
        record = TokenRecord(
            dtype=dtype, tokens=tokens, documents=documents, vocabulary=encoder.vocabulary, tokenizer=encoder.name,
            end_of_text=encoder.end_of_text,
        )
        draft.publish(record)
    return record


def _width(wanted: Width | None, vocabulary: int) -> Width:
    if vocabulary <= UINT16_TOKENS:
        return wanted or "uint16"
    if wanted == "uint16":
        raise InvalidRunError(f"uint16 holds {UINT16_TOKENS:,} tokens and the tokenizer has {vocabulary:,}; use uint32")
    return "uint32"


def _write(pieces: Iterator[Piece], encoder: Encoder, dtype: Width, draft: TokenDraft) -> tuple[int, int]:
    """Returns how many tokens and documents were written."""
    tokens = documents = 0
    width = np.dtype(dtype).newbyteorder("<")
    end = np.array([encoder.end_of_text])
    for batch in _batches(pieces):
        for piece, ids in zip(batch, encoder.encode([piece.text for piece in batch]), strict=True):
            whole = np.concatenate([ids, end]) if piece.ends else ids
            draft.write(whole.astype(width).tobytes())
            tokens, documents = tokens + len(whole), documents + piece.ends
    return tokens, documents


def _batches(pieces: Iterator[Piece]) -> Iterator[Sequence[Piece]]:
    batch: list[Piece] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class TokenDraft:
    """A file that is being written. :meth:`publish` gives it its name."""

    def __init__(self, path: Path, temporary: Path, file: BinaryIO) -> None:
        self._path, self._temporary, self._file = path, temporary, file

    def write(self, data: bytes) -> None:
        with storage_errors("write", self._temporary):
            self._file.write(data)

    def publish(self, record: TokenRecord) -> None:
        """Make it durable. The record comes first: tokens that a reader finds have theirs."""
        with storage_errors("write", self._temporary):
            self._file.flush()
            os.fsync(self._file.fileno())
        replace_file(record_path(self._path), record.model_dump_json(indent=1).encode() + b"\n")
        with storage_errors("write", self._path):
            os.replace(self._temporary, self._path)
        sync_directory(self._path.parent)


@contextmanager
def drafting(path: Path) -> Iterator[TokenDraft]:
    """Write ``path`` by way of a hidden file next to it, which goes if the block fails, and is written again after a kill.

    Raises:
        InvalidRunError: There is a file already, or another process writes it.
        StorageError: The volume refuses.
    """
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors("write", temporary), open(temporary, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRunError(f"another process writes {path}; wait for it, or name another file") from None
        if path.exists():
            with suppress(OSError):
                temporary.unlink()
            raise InvalidRunError(f"{path} is there already; remove it, or name another file")
        os.ftruncate(file.fileno(), 0)
        try:
            yield TokenDraft(path, temporary, file)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
