"""Text that ``datasets`` saved to disk, tokenized while it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright_trainer.contract.data import HFDataset
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import IGNORED, Array, Dataset
from trainwright_trainer.data.files import Stream, reading
from trainwright_trainer.data.order import Samples
from trainwright_trainer.data.tokenizer import Texts, TextTokenizer

if TYPE_CHECKING:
    import datasets  # type: ignore[import-untyped]

MARKERS = ("dataset_dict.json", "state.json")
"""Files that tell a saved ``DatasetDict`` and a saved ``Dataset``."""


class Rows:
    """Columns of one split, ``(n, max_length)`` unless said otherwise.

    ``inputs`` int64, ``targets`` int64 (the next token, ``IGNORED`` where there is none), ``attention_mask`` int64,
    ``special_tokens_mask`` bool; for pairs also ``token_types`` int64; with a label column ``labels`` int64 ``(n,)``.
    """

    def __init__(
        self, data: HFDataset, name: str, rows: datasets.Dataset, tokenizer: TextTokenizer, model_vocabulary: int | None
    ) -> None:
        self._data, self._name, self._tokenizer, self._vocabulary = data, name, tokenizer, model_vocabulary
        wanted = [*data.text_columns, *([data.label_column] if data.label_column else [])]
        self._rows = rows.with_format(None).select_columns(wanted)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """Raises :class:`DataError` for a row without text, with a token beyond the model's, or a label that is no class."""
        ids = np.maximum(samples.ids, 0).tolist()
        rows = self._rows[ids]
        columns = dict(self._tokenizer.columns(self._texts(ids, rows)))
        self._check_tokens(ids, columns["inputs"])
        columns["targets"] = _next_tokens(columns["inputs"], columns["attention_mask"])
        if len(self._data.text_columns) == 1:
            del columns["token_types"]
        if self._data.label_column is not None:
            columns["labels"] = self._labels(ids, rows[self._data.label_column])
        return columns

    def _texts(self, ids: Sequence[int], rows: Mapping[str, list[Any]]) -> Texts:
        texts = [rows[column] for column in self._data.text_columns]
        for column, found in zip(self._data.text_columns, texts, strict=True):
            if None in found:
                raise DataError(f"row {ids[found.index(None)]:,} of {self._name} in {self._data.path} has no {column}")
        return list(zip(*texts, strict=True)) if len(texts) == 2 else texts[0]

    def _check_tokens(self, ids: Sequence[int], inputs: Array) -> None:
        if self._vocabulary is not None and inputs.size and int(inputs.max()) >= self._vocabulary:
            row = int(inputs.argmax()) // inputs.shape[1]
            raise DataError(
                f"row {ids[row]:,} of {self._name} in {self._data.path} has token {inputs.max():,}, and the model's vocab_size "
                f"is {self._vocabulary:,}: {self._tokenizer.path} is of another model"
            )

    def _labels(self, ids: Sequence[int], labels: list[int | None]) -> Array:
        classes = self._data.classes or 0
        for row, label in zip(ids, labels, strict=True):
            if label is None or not 0 <= label < classes:
                raise DataError(
                    f"row {row:,} of {self._name} in {self._data.path} has label {label}, and data.classes is {classes}"
                )
        return np.array(labels, dtype=np.int64)


def load(data: HFDataset, model_vocabulary: int | None = None) -> Dataset:
    """Open the data set; its rows stay on disk. Their tokens are checked against ``model_vocabulary`` when they are read.

    Raises:
        DataError: It or its tokenizer is missing, or is not what the run says.
    """
    tokenizer = TextTokenizer(Path(data.tokenizer))
    if data.vocabulary is not None and tokenizer.vocabulary > data.vocabulary:
        raise DataError(
            f"{tokenizer.path} has {tokenizer.vocabulary:,} tokens, and data.vocabulary is {data.vocabulary:,}"
        )
    tokenizer.cut_to(data.max_length, pairs=len(data.text_columns) == 2)
    saved = open_saved(Path(data.path), (data.train_split, data.evaluation_split))
    digest = hashlib.sha256(
        f"hf-dataset v1:{data.text_columns}:{data.label_column}:{data.max_length}:{tokenizer.digest}:".encode()
    )
    for name, rows in saved.items():
        _check(data, name, rows)
        digest.update(Stream([Path(file["filename"]) for file in rows.cache_files]).sample())
    train, held_out = saved[data.train_split], saved[data.evaluation_split]
    if data.samples is not None and data.samples != len(train):
        raise DataError(f"{data.train_split} in {data.path} has {len(train):,} rows, and data.samples is {data.samples:,}")
    return Dataset(
        Rows(data, data.train_split, train, tokenizer, model_vocabulary),
        Rows(data, data.evaluation_split, held_out, tokenizer, model_vocabulary),
        digest.hexdigest(), tokenizer.words, tokenizer.pad_id,
    )


def _check(data: HFDataset, name: str, rows: datasets.Dataset) -> None:
    where = f"{name} in {data.path}"
    if not len(rows):
        raise DataError(f"{where} has no rows")
    for column in (*data.text_columns, *([data.label_column] if data.label_column else [])):
        if column not in rows.features:
            raise DataError(f"{where} has no column {column}; it has {', '.join(rows.features)}")
        kind = str(getattr(rows.features[column], "dtype", "no text"))
        if column != data.label_column and kind not in ("string", "large_string"):
            raise DataError(f"column {column} of {where} holds {kind}, and data.text_columns names text")
        if column == data.label_column and not kind.startswith(("int", "uint")):
            raise DataError(f"column {column} of {where} holds {kind}, and data.label_column names class numbers")
    classes = getattr(rows.features.get(data.label_column), "num_classes", None) if data.label_column else None
    if classes is not None and classes != data.classes:
        raise DataError(f"column {data.label_column} of {where} has {classes} classes, and data.classes is {data.classes}")


def _next_tokens(inputs: Array, attention_mask: Array) -> Array:
    targets = np.full(inputs.shape, IGNORED, dtype=np.int64)
    targets[:, :-1] = np.where(attention_mask[:, 1:] == 1, inputs[:, 1:], IGNORED)
    return targets


def open_saved(path: Path, splits: Sequence[str]) -> dict[str, datasets.Dataset]:
    """The named splits of a saved ``DatasetDict``.

    ``load_from_disk`` maps Arrow files and runs no code of the data set's. It gives no streaming data sets, whose place cannot
    be found again at another world size.

    Raises:
        DataError: There is nothing, or something else.
        StorageError: The volume failed.
    """
    with reading(path):
        path.stat()
        if not any((path / marker).exists() for marker in MARKERS):
            raise DataError(f"{path} holds no data set that `save_to_disk` of a DatasetDict wrote")
    import datasets

    datasets.disable_progress_bars()
    try:
        with reading(path):
            found = datasets.load_from_disk(str(path))
    except (ValueError, KeyError, TypeError) as error:  # broken JSON or Arrow: pyarrow's errors are ValueErrors
        raise DataError(f"{path} cannot be read as a data set: {error}") from error
    if not isinstance(found, datasets.DatasetDict):
        raise DataError(f"{path} is one split; save a DatasetDict with {' and '.join(splits)}")
    missing = [name for name in splits if name not in found]
    if missing:
        raise DataError(f"{path} has no split {missing[0]}; it has {', '.join(found)}")
    return {name: found[name] for name in splits}
