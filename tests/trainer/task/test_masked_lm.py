"""Masks: 80/10/10 of 15 %, of text only, and a function of the sample's position alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.trainer.model.recipes import REVIEWS, TEXT
from tokenizers import Tokenizer, models

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import IGNORED, Columns
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.masked_lm import MaskedLanguageModel
from trainwright_trainer.training.assembly import build_task

VOCABULARY, MASK, LENGTH = 100, 100, 64
TASK = MaskedLanguageModel(seed=5, mask_id=MASK, vocabulary=VOCABULARY)


def split(count: int, **columns: Any) -> Columns:
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (count, LENGTH), dtype=np.uint16)
    return Columns({"inputs": tokens, **columns})


def at(positions: list[int], ids: list[int] | None = None) -> Samples:
    return Samples(np.array(ids if ids is not None else positions), np.array(positions))


def test_shares() -> None:
    data = split(400)
    batch = TASK.collate(data, at(list(range(400))))
    tokens, shown, labels = torch.from_numpy(data.columns["inputs"].astype(np.int64)), batch["input_ids"], batch["labels"]
    chosen = labels != IGNORED
    assert TASK.items(batch) == int(chosen.sum())
    assert torch.equal(labels[chosen], tokens[chosen])
    assert torch.equal(shown[~chosen], tokens[~chosen])
    assert float(chosen.float().mean()) == pytest.approx(0.15, abs=0.01)
    kinds = [shown[chosen] == MASK, (shown != tokens)[chosen] & (shown[chosen] != MASK), (shown == tokens)[chosen]]
    assert [float(kind.float().mean()) for kind in kinds] == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    assert int(shown.max()) == MASK


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8, unique=True), st.data())
def test_a_sample_sees_one_mask_however_batches_are_cut(positions: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(positions)))
    ids = [position % 10 for position in positions]
    rows = split(10)
    whole = TASK.collate(rows, at(positions, ids))
    parts = [TASK.collate(rows, at(positions[part], ids[part])) for part in (slice(0, cut), slice(cut, None)) if positions[part]]
    for name in ("input_ids", "labels"):
        assert torch.equal(torch.cat([part[name] for part in parts]), whole[name])


def test_another_pass_over_the_data_sees_another_mask() -> None:
    first, second = (TASK.collate(split(4), at(positions, [0, 1, 2, 3])) for positions in ([0, 1, 2, 3], [4, 5, 6, 7]))
    assert not torch.equal(first["labels"], second["labels"])
    other = MaskedLanguageModel(6, MASK, VOCABULARY).collate(split(4), at([0, 1, 2, 3]))
    assert not torch.equal(first["labels"], other["labels"])


def test_padding_and_special_tokens_are_never_chosen() -> None:
    attention = np.ones((50, LENGTH), dtype=np.int64)
    attention[:, 40:] = 0
    special = np.zeros((50, LENGTH), dtype=np.bool_)
    special[:, 0] = True
    batch = TASK.collate(split(50, attention_mask=attention, special_tokens_mask=special), at(list(range(50))))
    assert (batch["labels"][:, 0] == IGNORED).all()
    assert (batch["labels"][:, 40:] == IGNORED).all()
    assert torch.equal(batch["attention_mask"], torch.from_numpy(attention))
    assert "special_tokens_mask" not in batch


def test_a_short_sample_still_has_something_to_predict() -> None:
    attention = np.zeros((200, LENGTH), dtype=np.int64)
    attention[:, 7] = 1
    batch = TASK.collate(split(200, attention_mask=attention), at(list(range(200))))
    assert TASK.items(batch) == 200


def test_a_sample_that_is_none() -> None:
    batch = TASK.collate(split(3), at([0, PADDING], [0, PADDING]))
    assert (batch["labels"][1] == IGNORED).all()
    assert (batch["labels"][0] != IGNORED).any()


def test_the_mask_is_the_first_id_above_the_tokens() -> None:
    task: Any = build_task("masked-lm", TEXT, 3)
    assert (task._mask_id, task._vocabulary, task._seed) == (256, 256, 3)


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    data = REVIEWS.model_copy(update={"tokenizer": str(tmp_path), "label_column": None, "classes": None})
    save_tokenizer(tmp_path, "[UNK]", "a", "[MASK]")
    task: Any = build_task("masked-lm", data)
    assert (task._mask_id, task._vocabulary) == (2, 3)
    save_tokenizer(tmp_path, "[UNK]", "a")
    with pytest.raises(DataError, match="no token for a mask"):
        build_task("masked-lm", data)


def save_tokenizer(folder: Path, *words: str) -> None:
    Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)})).save(str(folder / "tokenizer.json"))
