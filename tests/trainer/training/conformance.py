"""What the conformance tests of the torch engines compare: runs, their checkpoints, and the textbook's way to train."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tests.trainer.training.rank_process import PAUSE_ENV
from torch import Tensor

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.checkpoint.store import CommittedFiles
from trainwright_trainer.commands.export.run import full_weights
from trainwright_trainer.contract import Training
from trainwright_trainer.data.load import load, vocabulary_of
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.initialise import initialise, materialise, skeleton
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.training.assembly import build_optimizer, build_task

if TYPE_CHECKING:
    from tests.trainer.training.conftest import Rank, Spec


def newest(directory: Path) -> CommitRecord:
    """The checkpoint that a run goes on from."""
    return CheckpointStore(directory).records()[0]


def committed(store: CheckpointStore) -> int:
    """The newest step that is safe; 0 where nothing is."""
    return max((record.step for record in store.records()), default=0)


def forget_after(directory: Path, step: int) -> None:
    """Set the checkpoints of later steps aside, so that a run goes on from this one."""
    store = CheckpointStore(directory)
    for record in store.records():
        if record.step > step:
            store.quarantine(record, [])


def assert_same_bits(directory: Path, other: Path) -> None:
    """Every file of the newest checkpoints: weights, optimizer and random state."""
    ours, theirs = newest(directory), newest(other)
    assert ours.step == theirs.step
    assert {file.name for file in ours.files} == {file.name for file in theirs.files}
    assert set(ours.files) == set(theirs.files)  # sizes and digests


def weights(directory: Path) -> dict[str, Tensor]:
    """All weights of the newest checkpoint, whichever engine wrote it."""
    return weights_of(directory, newest(directory))


def weights_of(directory: Path, record: CommitRecord) -> dict[str, Tensor]:
    return dict(full_weights(CommittedFiles(CheckpointStore(directory), record)))


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], rtol: float, atol: float) -> None:
    """Every tensor, by name. NaN is equal to NaN."""
    ours = {name: found[name] for name in expected}
    torch.testing.assert_close(ours, expected, rtol=rtol, atol=atol, equal_nan=True)


def losses(rank: Rank) -> dict[int, float]:
    """By step. One that is not finite is text in the log."""
    return {event["step"]: float(event["loss"]) for event in rank.events("step")}


def norms(rank: Rank) -> dict[int, float]:
    """Norm of the gradients before clipping, by step."""
    return {event["step"]: float(event["grad_norm"]) for event in rank.events("step")}


@dataclass(frozen=True)
class Textbook:
    """A run of one process without an engine, which sees the whole batch at once."""

    losses: dict[int, float]
    norms: dict[int, float]
    weights: dict[str, Tensor]


def textbook(work: Training, global_batch: int, steps: int, left_out: Container[int] = ()) -> Textbook:
    """Train as a textbook does. A step that is ``left_out`` is measured, and moves nothing."""
    dataset = load(work.data, work.seed, vocabulary_of(work.model))
    task = build_task(work.task, work.data, work.seed)
    module = skeleton(lambda: build_model(work.model, work.task, work.data)).train()
    materialise(module, torch.device("cpu"))
    initialise(module, seed=work.seed, weights=None if work.initial_weights is None else Path(work.initial_weights))
    optimizer = build_optimizer(work.optimizer, module, work.learning_rate.peak)
    order = DataOrder(work.seed, len(dataset.train), dataset.fingerprint)
    found: dict[int, float] = {}
    before_clipping: dict[int, float] = {}
    for step in range(1, steps + 1):
        batch = task.collate(dataset.train, order.batch((step - 1) * global_batch, global_batch))
        loss = task.measure(module, batch).loss / task.items(batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), work.clip_norm or torch.inf)
        found[step], before_clipping[step] = float(loss.detach()), float(norm)
        if step in left_out:
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(work.learning_rate, step * global_batch, steps * global_batch)
        optimizer.step()
    return Textbook(found, before_clipping, {name: tensor.detach() for name, tensor in module.named_parameters()})


HARD = {"precision": "bf16", "clip_norm": 0.5}
"""Settings that a resume could get wrong, with dropout in the model."""
STEPS, EVERY = 60, 20
SLOWED = {PAUSE_ENV: "0.2"}
"""What a run is told in which a request or a kill has to arrive in the middle: it takes 12 s or more, on whatever machine."""


def hard(spec: Spec, directory: Path, engine: str, **work: Any) -> dict[str, Any]:
    """A run with these settings; keywords replace keys of its ``work``."""
    built = spec(directory, engine=engine, **HARD, **work)
    built["work"]["model"]["dropout"] = 0.1
    built["work"]["duration"] = {"steps": STEPS}
    built["work"]["checkpoints"]["every_steps"] = EVERY
    return built
