"""Every recipe learns: its own data or data like it, first values of ours, a few real steps."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from tests.trainer.model.recipes import LENGTH, RECIPES, Recipe

from trainwright_trainer.contract.data import HFDataset
from trainwright_trainer.contract.training import AdamW
from trainwright_trainer.data.dataset import Columns, Split
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import Samples
from trainwright_trainer.model.blocks import checkpoint_activations
from trainwright_trainer.model.initialise import initialise, materialise, skeleton
from trainwright_trainer.training.assembly import build_optimizer, build_task

STEPS = {"vit": 60}
"""16 are enough for the others."""
MICRO = 16


@cache
def reviews() -> Split:
    """Texts whose class is told by which third of the vocabulary they use."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 512)
    tokens = random.integers(1, 80, (512, LENGTH)) + 80 * labels[:, np.newaxis]
    return Columns({"inputs": tokens, "attention_mask": np.ones_like(tokens), "labels": labels})


def losses(recipe: Recipe, steps: int) -> list[float]:
    data = reviews() if isinstance(recipe.data, HFDataset) else load(recipe.data, 0).train
    task = build_task(recipe.task, recipe.data, 0)
    module = skeleton(recipe.build)
    checkpoint_activations(module)
    materialise(module, torch.device("cpu"))
    initialise(module, seed=0)
    module.train()
    optimizer = build_optimizer(AdamW(kind="adamw"), module, 5e-3)
    found = []
    for step in range(steps):
        positions = np.arange(step * MICRO, (step + 1) * MICRO)
        batch = task.collate(data, Samples(positions % len(data), positions))
        loss = task.measure(module, batch).loss / task.items(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_the_loss_falls(name: str) -> None:
    found = losses(RECIPES[name], STEPS.get(name, 16))
    classes = {"image-classification": 10, "text-classification": 3}.get(RECIPES[name].task, 257)
    assert found[0] == pytest.approx(np.log(classes), rel=0.35)  # as likely as any other, to begin with
    assert np.mean(found[-3:]) < 0.85 * found[0]
