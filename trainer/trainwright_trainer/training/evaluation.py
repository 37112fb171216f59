"""Evaluation on the held-out split, spread over all ranks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import evaluation_slices
from trainwright_trainer.data.prefetch import Prefetch
from trainwright_trainer.engine.base import Engine
from trainwright_trainer.rank.place import Place
from trainwright_trainer.task.base import Task
from trainwright_trainer.training.reporting import Score


def evaluate(
    engine: Engine,
    task: Task,
    split: Split,
    place: Place,
    *,
    micro: int,
    max_batches: int | None,
    before_batch: Callable[[], None],
) -> Score:
    """Score the split, or each rank's first ``max_batches`` batches of it.

    ``before_batch`` is called before each batch, equally often on all ranks.
    """
    slices = evaluation_slices(len(split), place.rank, place.world_size, micro)[:max_batches]
    sums, items = torch.zeros(2, dtype=torch.float64, device=engine.world.device), 0
    with Prefetch(task.collate(split, samples) for samples in slices) as batches:
        for _ in slices:
            before_batch()
            batch = next(batches)
            items += task.items(batch)
            sums += engine.evaluate(batch)
    loss, correct, count = engine.world.control.reduce_sums([*sums.tolist(), items])
    return Score(loss / count, correct / count, int(count))
