"""The training loop: restore, ticks, saves, evaluation, completion. Never calls ``torch.distributed``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trainwright_trainer.checkpoint import write_complete
from trainwright_trainer.contract import training as contract
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import DivergedError, InvalidRunError
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.batch import BatchPlan, plan_batch
from trainwright_trainer.data.dataset import Dataset
from trainwright_trainer.data.order import NOTHING, DataOrder, Samples
from trainwright_trainer.data.prefetch import Prefetch
from trainwright_trainer.engine.base import Engine, StepResult
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.sinks import open_sinks
from trainwright_trainer.optim.schedule import learning_rate, target_samples
from trainwright_trainer.rank.ending import cause_of, seconds_for_save
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.task.base import Batch, Task
from trainwright_trainer.training.checkpointer import Checkpointer
from trainwright_trainer.training.evaluation import evaluate
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.reporting import Meter, Reporter
from trainwright_trainer.training.watched_group import WatchedGroup
from trainwright_trainer.training.witness import Nobody, Witness

SAVE_PATIENCE_SECONDS = 60.0
"""How much longer than expected a save may take that only the end of the run waits for: by then it hangs."""
_POLL_SECONDS = 0.02


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
    witness: Witness = field(default_factory=Nobody)


@dataclass(frozen=True, slots=True)
class Share:
    """This rank's part of a step, by micro batch."""

    samples: list[Samples]
    batches: list[Batch]


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
        self._batch = _batch_plan(self._training.batch, parts.place.world_size)
        self._global_batch = self._batch.samples
        # Counted in the run's own steps: those of a world that has grown or shrunk may be of another size.
        steps_of = self._training.batch.effective or self._global_batch
        self._target = target_samples(self._training.duration, len(parts.dataset.train), steps_of)
        self._at = Position()
        self._tick = 0
        self._unread: StepResult | None = None
        self._meter = Meter()
        self._control = WatchedGroup(parts.engine.world.control, parts.link, self._meter)
        self._phase: Phase = "starting"
        self._report = Reporter(parts.place, parts.link, open_sinks(parts.spec, leads=parts.place.leads))
        parts.link.agree_through(self._control.reduce_sums)

    def run(self) -> Outcome:
        """Train until the target or until told to stop.

        Raises:
            RankError: An end with a known cause; :func:`ending.code_of` names the code for this and any other error.
        """
        try:
            return self._run()
        except DivergedError:
            self._let_save_finish()
            raise

    def _run(self) -> Outcome:
        self._enter("restoring")
        self._at = self._checkpoints.restore()
        if self._checkpoints.committed_step is None:
            self._engine.initialise()
        self._enter("warming_up")
        self._warm_up()
        self._report.started(self._at, self._target, self._global_batch)
        self._enter("training")
        try:
            with Prefetch(self._steps()) as steps:
                self._train(steps)
            self._evaluate()
            self._boundary()
            return self._finish()
        except _ToldToStop:
            return self._stop()

    def close(self) -> None:
        """Leave the other ranks in order, after :meth:`run` returned."""
        self._checkpoints.close()
        self._engine.world.close()

    def _train(self, steps: Iterator[Share]) -> None:
        while self._at.samples < self._target:
            self._boundary()
            self._train_step(steps)
            if _due(self._at.step, self._training.checkpoints.every_steps):
                self._begin_save()
            if _due(self._at.step, self._training.evaluation.every_steps) and self._at.samples < self._target:
                self._evaluate()

    def _warm_up(self) -> None:
        self._engine.warm_up(self._share(0).batches[0])

    def _share(self, samples: int) -> Share:
        """This rank's share of the global batch at a position."""
        batch = self._order.batch(samples, self._global_batch)
        slices = [part if len(part) else NOTHING for part in self._batch.slices(batch, self._place.rank)]
        batches = [self._parts.task.collate(self._parts.dataset.train, part) for part in slices]
        return Share(slices, [_pinned(batch) for batch in batches] if self._engine.world.device.type == "cuda" else batches)

    def _steps(self) -> Iterator[Share]:
        """This rank's part of each step from here to the target."""
        for samples in range(self._at.samples, self._target, self._global_batch):
            yield self._share(samples)

    def _boundary(self) -> None:
        """Between two ticks: the only place where a run stops or saves because it was told to."""
        self._tick += 1
        match self._link.boundary(self._tick):
            case "stop":
                raise _ToldToStop
            case "save":
                self._begin_save()
            case None:
                self._reporting_failure(self._checkpoints.poll)

    def _train_step(self, steps: Iterator[Share]) -> None:
        with self._meter.step(self._global_batch):
            asked = time.perf_counter()
            share = next(steps)
            data_seconds = time.perf_counter() - asked
            items = self._items(share.batches)
            for index, batch in enumerate(share.batches):
                self._link.mark()
                self._engine.forward_backward(batch, loss_denominator=items, sync=index == len(share.batches) - 1)
            self._check()
            samples = self._at.samples + self._global_batch
            rate = learning_rate(
                self._training.learning_rate, samples, self._target, batch=self._global_batch, base=self._training.batch.effective
            )
            self._unread = self._engine.step(rate)
            self._at = Position(self._at.step + 1, samples)
        self._parts.witness.took(self._at.step, share.samples, share.batches, data_seconds)
        if self._at.step == 1 or _due(self._at.step, self._training.log_every_steps) or samples >= self._target:
            self._check_and_report(rate)

    def _items(self, batches: list[Batch]) -> float:
        """Of the whole step, on all ranks."""
        task = self._parts.task
        if task.items_each is not None:
            return float(self._global_batch * task.items_each)
        [items] = self._control.reduce_sums([sum(task.items(batch) for batch in batches)])
        return items

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

    def _begin_save(self) -> None:
        """Start to commit every finished step; training goes on where the engine can save beside it."""
        self._check()
        if self._at.step > self._checkpoints.begun_step:
            self._saving(lambda: self._report.stalled(self._checkpoints.begin(self._at)))

    def _save(self) -> None:
        """Commit every finished step before anything else happens."""
        self._check()
        if self._at.step > self._checkpoints.begun_step:
            self._saving(lambda: self._checkpoints.save(self._at))
        else:
            self._saving(self._checkpoints.finish)

    def _saving(self, act: Callable[[], None]) -> None:
        before = self._phase
        self._enter("saving")
        self._reporting_failure(act)
        self._enter(before)

    def _reporting_failure(self, act: Callable[[], None]) -> None:
        committed = self._checkpoints.committed_step
        try:
            act()
        except Exception:
            self._report.save_failed()
            raise
        if self._checkpoints.committed_step != committed:
            self._report.committed()

    def _let_save_finish(self) -> None:
        """Wait for what was begun while all was finite. All ranks diverge at the same place, so that each waits for its part.

        Whatever becomes of it, the run has diverged.
        """
        if not self._is_saving():
            return
        self._enter("saving")
        deadline = time.monotonic() + self._checkpoints.seconds_to_go + SAVE_PATIENCE_SECONDS
        reason = f"it took {SAVE_PATIENCE_SECONDS:g} s longer than expected"
        try:
            while self._is_saving() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                self._reporting_failure(self._checkpoints.poll)
        except Exception as error:
            reason = cause_of(error, None).message
        if self._is_saving():
            get_log().warning("checkpoint_not_finished", step=self._checkpoints.begun_step, reason=reason)

    def _is_saving(self) -> bool:
        return self._checkpoints.begun_step > (self._checkpoints.committed_step or 0)

    def _finish(self) -> Outcome:
        self._save()
        if self._place.leads:
            directory = self._training.checkpoints.directory
            write_complete(directory, self._parts.spec.identity, self._at.step, self._checkpoints.attempt)
        self._control.broadcast_object(None)  # nobody reports success before the marker is there
        self._report.ended("finished", self._at, self._checkpoints.committed_step)
        self._enter("finished")
        return Outcome(ExitCode.DONE, self._at.step, self._checkpoints.committed_step)

    def _stop(self) -> Outcome:
        """Save what is finished if the grace period allows it. Rank 0 decides, since clocks differ."""
        needed = self._checkpoints.seconds_to_go
        if self._at.step > self._checkpoints.begun_step:
            needed += self._checkpoints.expected_seconds
        fits = self._control.broadcast_object(needed == 0 or needed <= self._seconds_left())
        if fits:
            self._save()
        else:
            self._checkpoints.finish()  # what is under way may still arrive; the grace period ends the wait
        code = ExitCode.PREEMPTED_SAVED if fits else ExitCode.PREEMPTED_NOT_SAVED
        self._report.ended("stopped", self._at, self._checkpoints.committed_step)
        return Outcome(code, self._at.step, self._checkpoints.committed_step)

    def _seconds_left(self) -> float:
        return seconds_for_save(self._parts.spec.lifecycle.grace_seconds, self._link.asked_at)


def _batch_plan(batch: contract.Batch, world_size: int) -> BatchPlan:
    try:
        return plan_batch(batch, world_size)
    except ValueError as error:
        raise InvalidRunError(str(error)) from error


def _pinned(batch: Batch) -> Batch:
    """In memory from which a GPU copies while it computes."""
    return {name: tensor.pin_memory() for name, tensor in batch.items()}


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
