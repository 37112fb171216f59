"""What a run of dist/ finds on its volumes: small data and small weights of the kind that its specification names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainwright_trainer.contract import Training


def write_tokens(path: Path, vocabulary: int, token_bytes: int = 4, count: int = 8000) -> None:
    """One file of token ids that repeat themselves."""
    path.mkdir(parents=True)
    ids = np.cumsum(np.random.default_rng(0).integers(0, 3, count)) % vocabulary
    ids.astype(f"<u{token_bytes}").tofile(path / "000.bin")


def write_images(path: Path, classes: int, count: int = 6) -> None:
    """``train`` and ``val``, with images of one colour for each class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for split in ("train", "val"):
        for label in range(classes):
            folder = path / split / f"n{label:08}"
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 60, (48, 40, 3), dtype=np.uint8) + np.uint8(40 * label % 200)
                Image.fromarray(pixels).save(folder / f"{number}.jpeg")


def write_pairs(path: Path, columns: tuple[str, ...], label: str, classes: int) -> None:
    """A data set of pairs of sentences, as ``save_to_disk`` writes it."""
    import datasets  # type: ignore[import-untyped]

    words = ["value", "of", "the", "list", "is", "returned", "when", "key", "lookup", "fails"]

    def rows(count: int, shift: int) -> Any:
        lines = [" ".join(words[(row + part + shift) % len(words)] for part in range(6)) for row in range(count)]
        return datasets.Dataset.from_dict({
            columns[0]: lines, columns[1]: lines[::-1], label: [row % classes for row in range(count)],
        })

    datasets.DatasetDict({"train": rows(60, 0), "validation": rows(12, 3)}).save_to_disk(path)


def write_weights(path: Path, training: Training) -> None:
    """The run's own small model as ``save_pretrained`` writes it: what it would be fine-tuned from."""
    import torch

    from trainwright_trainer.model.build import build_model

    torch.manual_seed(0)
    build_model(training.model, training.task, training.data).save_pretrained(path)  # type: ignore[operator]


def write_table(path: Path, label: str, files: int, count: int = 200) -> None:
    """Parquet files whose label follows from two of the columns."""
    import pyarrow as pa
    from pyarrow import parquet

    path.mkdir(parents=True)
    for number in range(files):
        features = np.random.default_rng(number).normal(size=(count, 5)).astype(np.float32)
        columns = {f"feature_{column}": features[:, column] for column in range(5)}
        columns[label] = (features[:, 0] * features[:, 1] > 0).astype(np.int64)
        parquet.write_table(pa.table(columns), path / f"part-{number}.parquet")
