"""A torch model that learns through an engine, an optimizer step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from trainwright_trainer.checkpoint import Snapshot, tensor_file
from trainwright_trainer.contract import training as contract
from trainwright_trainer.contract.failures import DivergedError, InvalidRunError
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.batch import StepShares, share_step
from trainwright_trainer.data.dataset import Dataset, HeldOut, Prefetch
from trainwright_trainer.data.order import NOTHING, DataOrder, Samples, evaluation_slices
from trainwright_trainer.engine.base import Engine, StepResult, TensorSnapshot
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.rank import random_state
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.task.base import Batch, Task
from trainwright_trainer.training.learner import Metadata, Position, Restored
from trainwright_trainer.training.reporting import Meter, Reporter
from trainwright_trainer.training.witness import Nobody, Witness


@dataclass(frozen=True, slots=True)
class LocalBatch:
    """This rank's part of a step, by micro batch."""

    samples: list[Samples]
    batches: list[Batch]


@dataclass(frozen=True, slots=True)
class Work:
    """What a learner is put together from."""

    training: Training
    engine: Engine
    task: Task
    dataset: Dataset
    metadata: Metadata
    """Of the model, for the commit records."""
    witness: Witness = field(default_factory=Nobody)


class TorchLearner:
    """What an engine trains, and where it stands in the data.

    Args:
        work: What to learn, and through which engine.
        place: This rank.
        link: Hears of each micro batch that is begun.
        report: Hears of steps and scores.
        group: For what all ranks must know of a step; its waits are taken off by ``meter``.
        meter: Of the steps.
    """

    evaluates_before_saving = False

    def __init__(self, work: Work, place: Place, link: Link, report: Reporter, group: Group, meter: Meter) -> None:
        self._work, self._training, self._engine = work, work.training, work.engine
        self._place, self._link, self._report, self._group, self._meter = place, link, report, group, meter
        self._order = DataOrder(self._training.seed, len(work.dataset.train), work.dataset.fingerprint)
        self._reader, self._readers = work.engine.layout.reader(place.rank), work.engine.layout.readers
        self._step_shares = _step_shares(self._training.batch, self._readers)
        self.step_samples = self._step_shares.samples
        # Counted in the run's own steps: those of a world that has grown or shrunk may be of another size.
        steps_of = self._training.batch.effective or self.step_samples
        self.target_samples = self._training.duration.target_samples(len(work.dataset.train), steps_of)
        self.position = Position()
        self._unread: StepResult | None = None
        self._ahead: Prefetch[LocalBatch] | None = None
        self._held_out = HeldOut(work.dataset.held_out)

    @property
    def done(self) -> bool:
        return self.position.samples >= self.target_samples

    @property
    def saves_in_background(self) -> bool:
        return self._engine.capabilities.saves_in_background

    def metadata(self) -> Metadata:
        return self._work.metadata

    def snapshots(self) -> Sequence[Snapshot]:
        random = {_random_file(self._place.rank): random_state.capture(self._engine.world.device)}
        return [self._engine.snapshot(), TensorSnapshot(random)]

    def initialise(self) -> None:
        self._engine.initialise()

    def load(self, checkpoint: Restored) -> None:
        self._engine.load(checkpoint)
        if checkpoint.world_size == self._place.world_size:
            states = tensor_file.decode(checkpoint.path(_random_file(self._place.rank)))
            random_state.restore(states, self._engine.world.device)
        else:  # neither what a rank of the other size drew, nor what this one draws in a run's first steps
            place, samples = self._place, checkpoint.position.samples
            purpose = f"rank {place.rank} of {place.world_size} after sample {samples}"
            random_state.seed_all(self._training.seed, purpose)
        self.position = checkpoint.position

    def warm_up(self) -> None:
        batch = self._local_batch(0).batches[0]
        self._link.mark()  # from here on a rank may wait for another
        self._engine.warm_up(batch)
        self._ahead = Prefetch(self._shares())

    def step(self) -> None:
        with self._meter.step(self.step_samples), self._engine.world.waits.counted():
            asked = time.perf_counter()
            share = next(self._shares_ahead)
            data_seconds = time.perf_counter() - asked
            self._meter.waited_for_data(data_seconds)
            items = self._items(share.batches)
            for index, batch in enumerate(share.batches):
                self._link.mark()
                # Nothing to predict is a loss of 0, and no gradient.
                self._engine.forward_backward(batch, loss_denominator=items or 1.0, sync=index == len(share.batches) - 1)
            self.check()
            at = Position(self.position.step + 1, self.position.samples + self.step_samples)
            rate = learning_rate(
                self._training.learning_rate, at.samples, self.target_samples, batch=self.step_samples,
                base=self._training.batch.effective,
            )
            self._unread = self._engine.step(rate)
            self.position = at
        if not items:
            self._report.nothing_to_predict(at)
        self._work.witness.record(at.step, share.samples, share.batches, data_seconds)
        if at.step == 1 or at.step % self._training.log_every_steps == 0 or self.done:
            self._check_and_report(rate)

    def stalled(self, seconds: float) -> None:
        self._report.stalled(seconds)

    def check(self) -> None:
        """Read the last step's verdict. One step late, so that a GPU has work while the host waits; in time for any save."""
        if self._unread is None or self._unread.finite():
            self._unread = None
            return
        loss, norm = float(self._unread.loss), float(self._unread.gradient_norm)
        raise DivergedError(f"step {self.position.step} is not finite: loss {loss:g}, gradient norm {norm:g}")

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        """Score the held-out split, spread over all ranks, or each rank's first ``max_batches`` batches of it."""
        split, task, known = self._held_out, self._work.task, len(self._held_out.left_out)
        slices = evaluation_slices(len(split), self._reader, self._readers, self._training.batch.micro)
        slices = slices[:self._training.evaluation.max_batches]
        sums, items = torch.zeros(2, dtype=torch.float64, device=self._engine.world.device), 0
        with Prefetch(split.collated(task.collate, samples) for samples in slices) as batches:
            for _ in slices:
                before_batch()
                batch = next(batches)
                items += task.items(batch)
                sums += self._engine.evaluate(batch)
        loss, correct, count = self._group.reduce_sums([*sums.tolist(), items])
        self._report.left_out(self.position, dict(list(split.left_out.items())[known:]))
        self._report.scored(self.position, loss, correct, int(count))

    def publish(self) -> None:
        """The last checkpoint is all there is."""

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._engine.world.close()

    @property
    def _shares_ahead(self) -> Iterator[LocalBatch]:
        if self._ahead is None:
            raise RuntimeError("warm_up comes before the first step")
        return self._ahead

    def _shares(self) -> Iterator[LocalBatch]:
        """This rank's part of each step from here to the target."""
        for samples in range(self.position.samples, self.target_samples, self.step_samples):
            yield self._local_batch(samples)

    def _local_batch(self, samples: int) -> LocalBatch:
        """This rank's share of the global batch at a position."""
        batch = self._order.batch(samples, self.step_samples)
        slices = [part if len(part) else NOTHING for part in self._step_shares.slices(batch, self._reader)]
        batches = [self._work.task.collate(self._work.dataset.train, part) for part in slices]
        return LocalBatch(slices, [_pinned(batch) for batch in batches] if self._engine.world.device.type == "cuda" else batches)

    def _items(self, batches: list[Batch]) -> float:
        """Of the whole step, on all ranks."""
        task = self._work.task
        if task.items_each is not None:
            return float(self.step_samples * task.items_each)
        [items] = self._group.reduce_sums([sum(task.items(batch) for batch in batches)])
        return items

    def _check_and_report(self, rate: float) -> None:
        result = self._unread
        self.check()
        if result is not None:
            epoch, loss, norm = self._order.epoch(self.position.samples), float(result.loss), float(result.gradient_norm)
            speed = self._meter.read(self._engine.world.waits.read())
            self._report.step(self.position, epoch, loss, norm, rate, speed)


def _step_shares(batch: contract.WorldBatch, readers: int) -> StepShares:
    try:
        return share_step(batch, readers)
    except ValueError as error:
        raise InvalidRunError(str(error)) from error


def _pinned(batch: Batch) -> Batch:
    """In memory from which a GPU copies while it computes."""
    return {name: tensor.pin_memory() for name, tensor in batch.items()}


def _random_file(rank: int) -> str:
    return f"rng-{rank}.safetensors"
