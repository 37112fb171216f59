"""The training loop: restore, ticks, saves, evaluation, completion. Never calls ``torch.distributed``."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trainwright_trainer.checkpoint import write_complete
from trainwright_trainer.checkpointing import Checkpointer, Position
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.dataset import Dataset
from trainwright_trainer.data.order import DataOrder, rank_slice
from trainwright_trainer.engine.base import Engine, StepResult
from trainwright_trainer.evaluation import evaluate
from trainwright_trainer.failures import DivergedError
from trainwright_trainer.lifecycle.link import Link
from trainwright_trainer.lifecycle.messages import Phase
from trainwright_trainer.meter import Meter
from trainwright_trainer.optim.schedule import learning_rate, target_samples
from trainwright_trainer.place import Place
from trainwright_trainer.reporter import Reporter
from trainwright_trainer.task.base import Batch, Task

EXIT_MARGIN_SECONDS = 5.0
"""Of the grace period, kept for ending: the supervisor's own 3 seconds, and ours to get out."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is put together from."""

    spec: RunSpec
    training: Training
    place: Place
    link: Link
    engine: Engine
    task: Task
    dataset: Dataset
    checkpoints: Checkpointer


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a loop ended that did not raise."""

    code: ExitCode
    step: int
    committed_step: int | None


class _ToldToStop(Exception):  # noqa: N818  a way out, not an error
    """The boundary says stop; carries nothing, ends whatever the loop is in."""


class Loop:
    """One attempt at a run, on one rank."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._training = parts, parts.training
        self._engine, self._link, self._place, self._checkpoints = parts.engine, parts.link, parts.place, parts.checkpoints
        self._order = DataOrder(self._training.seed, len(parts.dataset.train), parts.dataset.fingerprint)
        self._global_batch = self._training.batch.micro * self._training.batch.accumulation * parts.place.world_size
        self._target = target_samples(self._training.duration, len(parts.dataset.train), self._global_batch)
        self._at = Position()
        self._tick = 0
        self._unread: StepResult | None = None
        self._meter = Meter()
        self._phase: Phase = "starting"
        self._report = Reporter(parts.place, parts.link)

    def run(self) -> Outcome:
        """Train until the target or until told to stop.

        Raises:
            RankError: An end with a known cause; :func:`failures.code_of` names the code for this and any other error.
        """
        self._enter("restoring")
        self._at = self._checkpoints.restore()
        self._warm_up()
        self._report.started(self._at, self._target, self._global_batch)
        self._enter("training")
        try:
            while self._at.samples < self._target:
                self._boundary()
                self._train_step()
                if _due(self._at.step, self._training.checkpoints.every_steps):
                    self._save()
                if _due(self._at.step, self._training.evaluation.every_steps) and self._at.samples < self._target:
                    self._evaluate()
            self._evaluate()
            self._boundary()
            return self._finish()
        except _ToldToStop:
            return self._stop()

    def close(self) -> None:
        """Leave the other ranks in order, after :meth:`run` returned."""
        self._engine.close()

    def _warm_up(self) -> None:
        self._engine.warm_up(self._micro_batches(0)[0])

    def _micro_batches(self, samples: int) -> list[Batch]:
        """This rank's share of the global batch at a position."""
        ids = self._order.batch_ids(samples, self._global_batch)
        shares = rank_slice(ids, self._place.rank, self._place.world_size, self._training.batch.micro)
        return [self._parts.task.collate(self._parts.dataset.train, share) for share in shares]

    def _boundary(self) -> None:
        """Between two ticks: the only place where a run stops or saves because it was told to."""
        self._tick += 1
        match self._link.boundary(self._tick):
            case "stop":
                raise _ToldToStop
            case "save":
                self._save()

    def _train_step(self) -> None:
        with self._meter.step(self._global_batch):
            batches = self._micro_batches(self._at.samples)
            [items] = self._engine.reduce_sums([sum(self._parts.task.items(batch) for batch in batches)])
            for index, batch in enumerate(batches):
                self._engine.forward_backward(batch, loss_denominator=items, sync=index == len(batches) - 1)
            self._check()
            samples = self._at.samples + self._global_batch
            rate = learning_rate(self._training.learning_rate, samples, self._target)
            self._unread = self._engine.step(rate)
            self._at = Position(self._at.step + 1, samples)
        if self._at.step == 1 or _due(self._at.step, self._training.log_every_steps) or samples >= self._target:
            self._check_and_report(rate)

    def _check(self) -> None:
        """Read the last step's verdict. One step late, so that a GPU has work while the host waits; in time for any save."""
        if self._unread is None or self._unread.finite():
            self._unread = None
            return
        loss, norm = float(self._unread.loss), float(self._unread.gradient_norm)
        raise DivergedError(f"step {self._at.step} is not finite: loss {loss:g}, gradient norm {norm:g}")

    def _check_and_report(self, rate: float) -> None:
        result = self._unread
        self._check()
        if result is not None:
            epoch = self._order.epoch(self._at.samples)
            self._report.step(self._at, epoch, float(result.loss), float(result.gradient_norm), rate, self._meter.read())

    def _evaluate(self) -> None:
        self._check()
        self._enter("evaluating")
        score = evaluate(
            self._engine, self._parts.task, self._parts.dataset.held_out, self._place, micro=self._training.batch.micro,
            max_batches=self._training.evaluation.max_batches, before_batch=self._boundary,
        )
        self._report.evaluated(self._at, score)
        self._enter("training")

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._link.phase(phase, self._at.step)

    def _save(self) -> None:
        """Commit every finished step, if there is one that is not yet."""
        self._check()
        if self._at.step <= (self._checkpoints.committed_step or 0):
            return
        before = self._phase
        self._enter("saving")
        try:
            self._checkpoints.save(self._at)
        except Exception:
            self._report.save_failed()
            raise
        self._report.committed()
        self._enter(before)

    def _finish(self) -> Outcome:
        self._save()
        if self._place.leads:
            directory = self._training.checkpoints.directory
            write_complete(directory, self._parts.spec.identity, self._at.step, self._checkpoints.attempt)
        self._engine.broadcast_object(None)  # nobody reports success before the marker is there
        self._report.ended("finished", self._at, self._checkpoints.committed_step)
        self._enter("finished")
        return Outcome(ExitCode.DONE, self._at.step, self._checkpoints.committed_step)

    def _stop(self) -> Outcome:
        """Save what is finished if the grace period allows it. Rank 0 decides, since clocks differ."""
        saved = self._at.step <= (self._checkpoints.committed_step or 0)
        fits = self._engine.broadcast_object(saved or self._checkpoints.expected_seconds <= self._seconds_left())
        if fits:
            self._save()
        code = ExitCode.PREEMPTED_SAVED if fits else ExitCode.PREEMPTED_NOT_SAVED
        self._report.ended("stopped", self._at, self._checkpoints.committed_step)
        return Outcome(code, self._at.step, self._checkpoints.committed_step)

    def _seconds_left(self) -> float:
        asked_at = self._link.asked_at
        waited = 0.0 if asked_at is None else time.monotonic() - asked_at
        return self._parts.spec.lifecycle.grace_seconds - EXIT_MARGIN_SECONDS - waited


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
