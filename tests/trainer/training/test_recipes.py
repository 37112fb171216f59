"""Each task with each kind of model trains two real ranks: as a textbook does, and to a lower loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.data.tokenizer_files import LIBRARY, TEXTS, word_piece
from tests.trainer.training.conformance import losses, textbook
from tests.trainer.training.conftest import Ranks, Spec
from tests.trainer.training.test_sources import image_folder

from trainwright_trainer.contract import Training

pytestmark = pytest.mark.slow

STEPS, BATCH, LENGTH, BYTES = 16, 32, 24, 256
Work = dict[str, Any]
BERT: Work = {
    "architecture": "bert", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": LENGTH, "dropout": 0.0,
}


def text(folder: Path) -> Work:
    """Python source with a token for each byte."""
    np.frombuffer((LIBRARY / "argparse.py").read_bytes(), np.uint8).astype("<u2").tofile(folder / "text.bin")
    return {"source": "tokens", "path": str(folder), "sequence_length": LENGTH, "vocabulary": BYTES}


def masked_lm(folder: Path) -> Work:
    """The id above the bytes is the mask. Ranks choose different numbers of tokens to predict."""
    return {"task": "masked-lm", "model": BERT | {"vocab_size": BYTES + 1}, "data": text(folder)}


def text_classification(folder: Path) -> Work:
    """Lines of different lengths, whose class a word tells that is somewhere in them."""
    import datasets  # type: ignore[import-untyped]

    lines = [line.split()[:6] for source in TEXTS for line in source.splitlines() if line.strip()]
    words = ("import", "return", "class")
    told = [" ".join([*line[:number % 4], *[words[number % 3]] * 8, *line[number % 4:]]) for number, line in enumerate(lines)]
    rows = datasets.Dataset.from_dict({"text": told, "label": [number % 3 for number in range(len(lines))]})
    parts = {"train": rows.select(range(90, len(rows))), "validation": rows.select(range(90))}
    datasets.DatasetDict(parts).save_to_disk(folder / "lines")
    data = {
        "source": "hf-dataset", "path": str(folder / "lines"), "tokenizer": str(word_piece(folder)), "max_length": LENGTH,
        "label_column": "label", "classes": 3,
    }
    return {"task": "text-classification", "model": BERT | {"vocab_size": 300, "num_labels": 3}, "data": data}


def of_transformers(folder: Path) -> Work:
    """Keys of its own configuration, tied weights, and no block that the trainer knows by name."""
    config = {
        "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": LENGTH, "vocab_size": BYTES, "bos_token_id": 0, "eos_token_id": 0,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    }
    model = {"architecture": "transformers", "model_type": "gpt2", "config": config}
    return {"task": "causal-lm", "model": model, "data": text(folder)}


def resnet(folder: Path) -> Work:
    model = {
        "architecture": "resnet", "num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
        "layer_type": "basic", "image_size": 8, "num_labels": 3,
    }
    return {"model": model, "data": image_folder(folder)["data"]}


@dataclass(frozen=True)
class Recipe:
    engine: str
    work: Callable[[Path], Work]
    as_textbook: bool = True
    """Batch norm sees the micro batch of its rank, and one process the whole batch."""


RECIPES = {
    "masked-lm, bert, ddp": Recipe("ddp", masked_lm),
    "masked-lm, bert, fsdp2": Recipe("fsdp2", masked_lm),
    "text-classification, bert, ddp": Recipe("ddp", text_classification),
    "causal-lm, gpt2, ddp": Recipe("ddp", of_transformers),
    "image-classification, resnet, ddp": Recipe("ddp", resnet, as_textbook=False),
}
LONGER = {"masked-lm, bert, fsdp2": pytest.mark.nightly}


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONGER.get(name, ())) for name in RECIPES])
def test_a_recipe_learns(ranks: Ranks, spec: Spec, name: str, tmp_path: Path) -> None:
    recipe, folder = RECIPES[name], tmp_path / "data"
    folder.mkdir()
    run = spec(
        tmp_path / "lineage", engine=recipe.engine, batch={"micro": BATCH // 4, "accumulation": 2}, duration={"steps": STEPS},
        learning_rate={"peak": 0.01, "schedule": "constant"}, **recipe.work(folder),
    )
    leader, _ = ranks.finish(run)
    found = losses(leader)
    early, late = np.mean([found[step] for step in (1, 2)]), np.mean([found[step] for step in (STEPS - 1, STEPS)])
    assert late < 0.7 * early
    [evaluated] = leader.events("evaluated")
    assert evaluated["loss"] < early
    if recipe.as_textbook:
        expected = textbook(Training.model_validate(run["work"]), BATCH, STEPS)
        assert found == pytest.approx(expected.losses, rel=1e-4)


def test_a_decoder_that_would_classify_by_padding_is_refused(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    work = text_classification(tmp_path)
    config = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 64, "vocab_size": 300, "num_labels": 3, "pad_token_id": 4}
    work["model"] = {"architecture": "transformers", "model_type": "gpt2", "config": config}
    leader, _ = ranks.finish(spec(tmp_path / "lineage", batch={"micro": 4}, duration={"steps": 4}, **work), code=10)
    [failed] = leader.events("rank_failed")
    assert failed["reason"].startswith("model.config.pad_token_id is 4, and the data's tokenizer pads with 0: ")
