"""Texts to token ids, by a local tokenizer or byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trainwright_trainer.contract.data import BYTE_VOCABULARY
from trainwright_trainer.contract.failures import InvalidRunError
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
