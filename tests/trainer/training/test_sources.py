"""Each source of people's own data trains two real ranks, and an attempt at another world size reads on where the first ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.trainer.data.tokenizer_files import LIBRARY, TEXTS, byte_level
from tests.trainer.training.conftest import Ranks, Spec

from trainwright_trainer.commands.tokenize.documents import Source as TextSource
from trainwright_trainer.commands.tokenize.run import Request, tokenize

pytestmark = pytest.mark.slow

LLAMA = {
    "architecture": "llama", "vocab_size": 400, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 32,
}

Work = dict[str, Any]


def tokens(folder: Path) -> Work:
    tokenizer = byte_level(folder)
    for name in ("argparse.py", "pydoc.py"):
        tokenize(Request(TextSource([LIBRARY / name], "text", "train"), folder / f"{name}.bin", str(tokenizer)))
    data = {"source": "tokens", "path": str(folder), "sequence_length": 32, "vocabulary": 400}
    return {"task": "causal-lm", "model": LLAMA, "data": data}


def hf_dataset(folder: Path) -> Work:
    import datasets  # type: ignore[import-untyped]

    lines = [line for text in TEXTS for line in text.splitlines() if len(line) > 10]
    parts = {"train": lines[40:], "validation": lines[:40]}
    rows = datasets.DatasetDict({name: datasets.Dataset.from_dict({"text": part}) for name, part in parts.items()})
    rows.save_to_disk(folder / "lines")
    data = {"source": "hf-dataset", "path": str(folder / "lines"), "tokenizer": str(byte_level(folder)), "max_length": 24}
    return {"task": "causal-lm", "model": LLAMA, "data": data}


def image_folder(folder: Path) -> Work:
    """Digits, in a colour for each class: crops and mirrors leave that alone."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch = load_digits()
    for number in range(300):
        part = folder / ("val" if number % 7 == 0 else "train") / ("red", "green", "blue")[number % 3]
        part.mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8, 3), 200, dtype=np.uint8)
        pixels[:, :, number % 3] = bunch.images[number] * 15.9375
        Image.fromarray(pixels).save(part / f"{number}.png")
    data = {"source": "image-folder", "path": str(folder), "image_size": 8, "classes": 3}
    model = {
        "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 3, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 3,
    }
    return {"model": model, "data": data}


SOURCES = {"tokens": tokens, "hf-dataset": hf_dataset, "image-folder": image_folder}


def run(spec: Spec, directory: Path, work: Work, steps: int, world: int = 2) -> dict[str, Any]:
    rate = {"peak": 0.01, "schedule": "constant"}
    return spec(directory, world=world, duration={"steps": steps}, batch={"micro": 32 // world}, learning_rate=rate, **work)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_source_trains_and_resumes(ranks: Ranks, spec: Spec, source: Callable[[Path], Work], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    work = source(folder)

    def losses(directory: str, steps: int, world: int) -> dict[int, float]:
        leader, *_ = ranks.finish(run(spec, tmp_path / directory, work, steps, world))
        assert leader.events("evaluated")[-1]["loss"] > 0
        return {event["step"]: event["loss"] for event in leader.events("step")}

    whole = losses("whole", 16, 2)
    early, late = np.mean([whole[step] for step in range(1, 5)]), np.mean([whole[step] for step in range(13, 17)])
    assert late < 0.97 * early
    losses("cut", 8, 2)
    resumed = losses("cut", 16, 1)
    assert set(resumed) == set(range(9, 17))
    assert resumed == pytest.approx({step: whole[step] for step in resumed}, rel=2e-3)


def test_data_of_another_vocabulary_is_refused(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    work = tokens(tmp_path)
    del work["data"]["vocabulary"]
    work["model"] = LLAMA | {"vocab_size": 300}
    leader, _ = ranks.finish(run(spec, tmp_path / "lineage", work, 4), code=12)
    [failed] = leader.events("rank_failed")
    assert failed["reason"] == "the data has a vocabulary of 400 tokens, and the model's vocab_size is 300"
