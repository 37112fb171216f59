"""The training loop: restore, steps, saves, evaluation, completion. Knows no library that trains."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from trainwright_trainer.checkpoint import write_complete
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import DivergedError, OutOfMemoryLaterError
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.ending import cause_of, is_out_of_memory
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.checkpointer import Checkpointer
from trainwright_trainer.training.learner import Learner
from trainwright_trainer.training.reporting import Reporter

SAVE_PATIENCE_SECONDS = 60.0
"""How much longer than expected a save may take that only the end of the run waits for: by then it hangs."""
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a loop ended that did not raise."""

    code: ExitCode
    step: int
    committed_step: int | None


class _StopRequested(Exception):  # noqa: N818  a way out, not an error
    """The boundary says stop; carries nothing, ends whatever the loop is in."""


class Loop:
    """One attempt at a run, on one rank."""

    def __init__(
        self, *, spec: RunSpec, settings: Checkpoints, evaluate_every: int | None, place: Place, link: Link, report: Reporter,
        group: Group, learner: Learner, checkpoints: Checkpointer,
    ) -> None:
        """``group`` is for what the loop itself agrees on; ``evaluate_every`` are steps between two evaluations, besides the one
        at the end.
        """
        self._spec, self._settings, self._evaluate_every = spec, settings, evaluate_every
        self._place, self._link, self._report, self._group = place, link, report, group
        self._learner, self._checkpoints = learner, checkpoints
        self._tick = 0
        self._phase: Phase = "starting"
        self._first_step = 0
        link.agree_through(group.reduce_sums)

    def run(self) -> Outcome:
        """Train until the target or until told to stop.

        Raises:
            RankError: An end with a known cause; :func:`failures.code_of` names the code for this and any other error.
        """
        try:
            return self._run()
        except DivergedError:
            self._let_save_finish()
            raise
        except Exception as error:
            if not (is_out_of_memory(error) and self._step > self._first_step):
                raise
            reason = cause_of(error, None).message
            fitted = f"steps {self._first_step + 1} to {self._step} of this attempt fitted"
            raise OutOfMemoryLaterError(f"{reason}; {fitted}, so that it is tried again") from error

    def close(self) -> None:
        """Let go of the checkpoints, and leave the other ranks in order. After a run that failed, its supervisor does that."""
        self._checkpoints.close()
        self._learner.close()

    def _run(self) -> Outcome:
        self._enter("restoring")
        if not self._checkpoints.restore():
            self._learner.initialise()
        self._enter("warming_up")
        self._learner.warm_up()
        self._first_step = self._step
        self._report.started(self._learner.position, self._learner.target_samples, self._learner.step_samples)
        self._enter("training")
        try:
            self._train()
            self._evaluate_what_is_done()
            return self._finish()
        except _StopRequested:
            return self._stop()

    def _train(self) -> None:
        while not self._learner.done:
            self._boundary()
            self._link.mark()
            self._learner.step()
            if self._step == self._first_step + 1:
                self._checkpoints.make_ready()
            acts = [self._save_if_due, self._evaluate_if_due]
            for act in reversed(acts) if self._learner.evaluates_before_saving else acts:
                act()

    def _evaluate_what_is_done(self) -> None:
        """At the target. The last save comes first, or goes on beside it: whatever becomes of the evaluation, it is kept."""
        if not self._learner.evaluates_before_saving:
            self._begin_save()
        try:
            self._evaluate()
        except _StopRequested:
            raise
        except Exception:
            self._let_save_finish()
            raise

    def _save_if_due(self) -> None:
        if _due(self._step, self._settings.every_steps):
            self._begin_save()

    def _evaluate_if_due(self) -> None:
        if _due(self._step, self._evaluate_every) and not self._learner.done:
            self._evaluate()

    @property
    def _step(self) -> int:
        return self._learner.position.step

    def _boundary(self) -> None:
        """Between two ticks: the only place where a run stops or saves because it was told to."""
        self._tick += 1
        match self._link.boundary(self._tick):
            case "stop":
                raise _StopRequested
            case "save":
                self._begin_save()
            case None:
                self._reporting(self._checkpoints.poll)

    def _evaluate(self) -> None:
        self._learner.check()
        self._enter("evaluating")
        self._learner.evaluate(self._boundary)
        self._enter("training")

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._link.phase(phase, self._step)

    def _begin_save(self) -> None:
        """Start to commit every finished step; training goes on where the learner can be saved beside it."""
        self._learner.check()
        if self._step > self._checkpoints.begun_step:
            self._saving(lambda: self._learner.stalled(self._checkpoints.begin()))

    def _save(self) -> None:
        """Commit every finished step before anything else happens."""
        self._learner.check()
        if self._step > (self._checkpoints.committed_step or 0) or self._checkpoints.is_saving:
            self._saving(self._checkpoints.save)

    def _saving(self, act: Callable[[], None]) -> None:
        before = self._phase
        self._enter("saving")
        self._link.mark()
        self._reporting(act)
        self._enter(before)

    def _reporting(self, act: Callable[[], None]) -> None:
        """Do what may end a save, and report how it ended."""
        committed, failed = self._checkpoints.committed_step, self._checkpoints.failed_saves
        try:
            act()
        finally:
            if self._checkpoints.failed_saves != failed:
                self._report.saves_failed(self._checkpoints.failed_saves)
        if self._checkpoints.committed_step != committed:
            self._report.committed()

    def _let_save_finish(self) -> None:
        """Wait for what was begun while all was well. All ranks diverge at the same place, so that each waits for its part.

        Whatever becomes of it, the attempt ends as it has to.
        """
        if not self._checkpoints.is_saving:
            return
        self._enter("saving")
        deadline = time.monotonic() + self._checkpoints.seconds_to_go + SAVE_PATIENCE_SECONDS
        reason: str | None = None
        try:
            while self._checkpoints.is_saving and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                self._reporting(self._checkpoints.poll)
        except Exception as error:
            reason = cause_of(error, None).message
        if self._checkpoints.is_saving:
            reason = f"it took {SAVE_PATIENCE_SECONDS:g} s longer than expected"
        if reason is not None:
            get_log().warning("checkpoint_not_finished", step=self._checkpoints.begun_step, reason=reason)

    def _finish(self) -> Outcome:
        self._save()
        if self._place.leads:
            self._learner.publish()
            directory = self._settings.directory
            write_complete(directory, self._spec.identity, self._step, self._checkpoints.attempt)
        self._group.broadcast(None)  # nobody reports success before the marker is there
        self._report.ended("finished", self._learner.position, self._checkpoints.committed_step)
        self._enter("finished")
        return Outcome(ExitCode.DONE, self._step, self._checkpoints.committed_step)

    def _stop(self) -> Outcome:
        """Save what is finished. Nothing is lost by trying: what is not committed in time costs nothing, and the supervisor
        ends the pod shortly before the grace period does, with the code for a run that was not saved.
        """
        self._save()
        self._report.ended("stopped", self._learner.position, self._checkpoints.committed_step)
        return Outcome(ExitCode.PREEMPTED_SAVED, self._step, self._checkpoints.committed_step)


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
