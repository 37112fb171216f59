"""The loop of a replicated run: restore, steps, saves, evaluation, completion. The same promises as the torch loop's."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright_trainer.checkpoint import write_complete
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.rank.ending import seconds_for_save
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Learner
from trainwright_trainer.training.replicated_checkpointer import Checkpointer
from trainwright_trainer.training.reporting import Reporter


@dataclass(frozen=True, slots=True)
class Parts:
    """What a replicated run is put together from."""

    spec: RunSpec
    settings: Checkpoints
    evaluate_every: int | None
    """Steps between two evaluations, besides the one at the end."""
    place: Place
    link: Link
    report: Reporter
    group: Group
    learner: Learner
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
        self._parts = parts
        self._learner, self._group, self._link, self._place = parts.learner, parts.group, parts.link, parts.place
        self._checkpoints = parts.checkpoints
        self._tick = 0
        self._phase: Phase = "starting"
        self._report = parts.report

    def run(self) -> Outcome:
        """Train until the target or until told to stop.

        Raises:
            RankError: An end with a known cause; :func:`ending.code_of` names the code for this and any other error.
        """
        self._link.agree_through(self._group.reduce_sums)
        try:
            return self._run()
        finally:
            self._checkpoints.close()

    def _run(self) -> Outcome:
        self._enter("restoring")
        self._checkpoints.restore(self._learner)
        self._enter("warming_up")
        self._learner.warm_up()
        self._report.started(self._learner.position, self._learner.target_samples, self._learner.step_samples)
        self._enter("training")
        try:
            self._train()
            self._evaluate()
            self._boundary()
            return self._finish()
        except _ToldToStop:
            return self._stop()

    def close(self) -> None:
        """Leave the other ranks in order, after :meth:`run` returned."""
        self._group.close()

    def _train(self) -> None:
        while not self._learner.done:
            self._boundary()
            self._link.mark()
            self._learner.step()
            # In this order: whether to stop early follows from the evaluation, and goes into the checkpoint.
            if _due(self._step, self._parts.evaluate_every) and not self._learner.done:
                self._evaluate()
            if _due(self._step, self._parts.settings.every_steps):
                self._save()

    @property
    def _step(self) -> int:
        return self._learner.position.step

    def _boundary(self) -> None:
        """Between two ticks: the only place where a run stops or saves because it was told to."""
        self._tick += 1
        match self._link.boundary(self._tick):
            case "stop":
                raise _ToldToStop
            case "save":
                self._save()

    def _evaluate(self) -> None:
        self._learner.check()
        self._enter("evaluating")
        self._learner.evaluate(self._boundary)
        self._enter("training")

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._link.phase(phase, self._step)

    def _save(self) -> None:
        """Commit every finished step, if there is one that is not yet."""
        self._learner.check()
        if self._step <= (self._checkpoints.committed_step or 0):
            return
        before = self._phase
        self._enter("saving")
        self._link.mark()
        try:
            self._checkpoints.save(self._learner)
        except Exception:
            self._report.save_failed()
            raise
        self._report.committed()
        self._enter(before)

    def _finish(self) -> Outcome:
        self._save()
        if self._place.leads:
            self._learner.publish()
            directory = self._parts.settings.directory
            write_complete(directory, self._parts.spec.identity, self._step, self._checkpoints.attempt)
        self._group.broadcast(None)  # nobody reports success before the marker is there
        self._report.ended("finished", self._learner.position, self._checkpoints.committed_step)
        self._enter("finished")
        return Outcome(ExitCode.DONE, self._step, self._checkpoints.committed_step)

    def _stop(self) -> Outcome:
        """Save what is finished if the grace period allows it. Rank 0 decides, since clocks differ."""
        saved = self._step <= (self._checkpoints.committed_step or 0)
        fits = self._group.broadcast(saved or self._checkpoints.expected_seconds <= self._seconds_left())
        if fits:
            self._save()
        code = ExitCode.PREEMPTED_SAVED if fits else ExitCode.PREEMPTED_NOT_SAVED
        self._report.ended("stopped", self._learner.position, self._checkpoints.committed_step)
        return Outcome(code, self._step, self._checkpoints.committed_step)

    def _seconds_left(self) -> float:
        return seconds_for_save(self._parts.spec.lifecycle.grace_seconds, self._link.asked_at)


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
