from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainwright_trainer.data.dataset import Columns
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.causal_lm import answer_with_sums
from trainwright_trainer.training.assembly import build_task


class Answers(nn.Module):
    """Gives fixed logits whatever it is asked."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.logits)


def samples(ids: list[int]) -> Samples:
    return Samples(np.array(ids), np.array(ids))


def test_images() -> None:
    task = build_task("image-classification")
    split = Columns({"images": np.zeros((3, 1, 2, 2), np.float32), "labels": np.array([0, 1, 2])})
    batch = task.collate(split, samples([2, 0, PADDING]))
    assert batch["images"].shape == (3, 1, 2, 2)
    assert task.items(batch) == 2
    measured = task.measure(Answers(torch.tensor([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]])), batch)
    assert int(measured.correct) == 2
    assert float(measured.loss) == pytest.approx(2 * np.log(1 + 2 * np.exp(-9)), rel=1e-2)


def test_tokens() -> None:
    task = build_task("causal-lm")
    split = Columns({"inputs": np.array([[1, 2], [3, 0]], np.uint16), "targets": np.array([[2, 3], [0, 1]], np.uint16)})
    batch = task.collate(split, samples([1, PADDING]))
    assert batch["inputs"].dtype == torch.int64
    assert task.items(batch) == 2
    logits = torch.zeros(2, 2, 4)
    logits[0, 0, 0] = 50.0
    model = Answers(logits)
    answer_with_sums(model)
    measured = task.measure(model, batch)
    assert int(measured.correct) == 1
    assert float(measured.loss) == pytest.approx(np.log(4), rel=1e-4)


def test_loss_is_fp32_whatever_the_logits_are() -> None:
    task = build_task("image-classification")
    split = Columns({"images": np.zeros((1, 1, 2, 2), np.float32), "labels": np.array([0])})
    measured = task.measure(Answers(torch.zeros(1, 3, dtype=torch.bfloat16)), task.collate(split, samples([0])))
    assert measured.loss.dtype == torch.float32
