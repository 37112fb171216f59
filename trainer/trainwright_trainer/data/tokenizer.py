"""A tokenizer from a local ``tokenizer.json``, the format of the ``tokenizers`` library. Nothing is fetched; no code is run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Array
from trainwright_trainer.data.files import reading

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "tokenizer.json"

_MASKS = ("[MASK]", "<mask>")
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<|finetune_right_pad_id|>", "<|endoftext|>", "</s>")

Texts = Sequence[str] | Sequence[tuple[str, str]]


class TextTokenizer:
    """Turns texts into token ids.

    Args:
        path: ``tokenizer.json``, or the directory that holds it.

    Raises:
        DataError: It is missing, or is not a tokenizer.
    """

    def __init__(self, path: Path) -> None:
        # The library warns and changes its thread pool when a process forks after its first use.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from tokenizers import Tokenizer

        with reading(path):
            self.path = path / FILE if path.is_dir() else path
            text = self.path.read_bytes()
        self.digest = hashlib.sha256(text).hexdigest()
        """SHA-256 of the file."""
        try:
            self.library: Tokenizer = Tokenizer.from_str(text.decode())
        except Exception as error:  # the library raises plain Exception
            raise DataError(f"{self.path} is not a tokenizer: {error}") from error

    @cached_property
    def vocabulary(self) -> int:
        """Every id is below it."""
        return max(self.library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def words(self) -> int:
        """Ids of what it learnt from texts are below it. Tokens that were added by name may lie beyond, and beyond the model:
        Gemma 3 of 1B has one for images.
        """
        return max(self.library.get_vocab(with_added_tokens=False).values(), default=-1) + 1

    @property
    def mask_id(self) -> int:
        """The token that stands for a hidden one. Raises :class:`DataError` where there is none."""
        found = self._first(_MASKS)
        if found is None:
            raise DataError(f"{self.path} has no token for a mask ({' or '.join(_MASKS)}), which task masked-lm needs")
        return found

    @property
    def pad_id(self) -> int:
        """Fills up short samples. Nothing is learnt from it, so where the tokenizer names none it is token 0."""
        padding = self.library.padding
        return int(padding["pad_id"]) if padding else self._first(_PADS) or 0

    def token_id(self, token: str) -> int | None:
        """The id of a token by its name."""
        return self.library.token_to_id(token)

    def _first(self, names: Sequence[str]) -> int | None:
        return next((found for name in names if (found := self.library.token_to_id(name)) is not None), None)

    def cut_to(self, length: int, *, pairs: bool) -> None:
        """From now on :meth:`columns` cuts and pads each sample to ``length`` tokens, on the right.

        Raises:
            DataError: The tokenizer's own special tokens take all of it.
        """
        added = self.library.num_special_tokens_to_add(pairs)
        if added >= length:
            raise DataError(f"{self.path} adds {added} tokens to each sample: no room for text in data.max_length {length}")
        self.library.enable_truncation(length)
        # On the right: a causal model that reads no attention mask then never sees it.
        self.library.enable_padding(direction="right", length=length, pad_id=self.pad_id)

    def columns(self, texts: Texts) -> Mapping[str, Array]:
        """``inputs``, ``attention_mask`` and ``token_types`` int64, ``special_tokens_mask`` bool, all ``(len(texts), length)``.

        Special tokens are those that the file's own post-processor adds.
        """
        encodings = self.library.encode_batch(list(texts))
        return {
            "inputs": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64),
            "token_types": np.array([encoding.type_ids for encoding in encodings], dtype=np.int64),
            "special_tokens_mask": np.array([encoding.special_tokens_mask for encoding in encodings], dtype=np.bool_),
        }
