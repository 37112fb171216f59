"""The starts of a proof, and what the ranks of each said: the run uninterrupted, killed, and resumed from what the kill left."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.commands.local import LocalPod, local_run
from trainwright_trainer.commands.local.pod import Event
from trainwright_trainer.commands.local.world import short_run
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.training.witness import WITNESS_ENV, StepSamples, read_account


class Seen(NamedTuple):
    """A sample as a rank was fed it."""

    position: int
    """In the run's endless stream."""
    id: int
    content: str


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """One attempt of the run, as its ranks told of it."""

    processes: int
    checkpoints: Path
    samples: Mapping[int, tuple[Seen, ...]]
    """Step -> what all ranks together computed it from, by position. Steps that every rank told of."""
    losses: Mapping[int, float]
    """Step -> mean loss, with the six digits that are logged."""
    restored_step: int | None
    """Where it began; None at the start."""

    @property
    def commits(self) -> tuple[CommitRecord, ...]:
        """Those in its directory as it is now, newest first."""
        return CheckpointStore(self.checkpoints).records()

    @property
    def newest(self) -> CommitRecord | None:
        return next(iter(self.commits), None)


def observe_attempt(processes: int, checkpoints: Path, witnesses: Path, events: Sequence[Event]) -> ObservedAttempt:
    """From what the ranks wrote and what they logged."""
    restored = [int(event["step"]) for event in events if event["event"] == "restored"]
    return ObservedAttempt(
        processes=processes,
        checkpoints=checkpoints,
        samples=_samples([read_account(witnesses, rank, StepSamples) for rank in range(processes)]),
        losses={int(event["step"]): float(event["loss"]) for event in events if event["event"] == "step"},
        restored_step=restored[0] if restored else None,
    )


def _samples(accounts: Sequence[Sequence[StepSamples]]) -> dict[int, tuple[Seen, ...]]:
    by_rank = [{account.step: account for account in each} for each in accounts]
    steps = set.intersection(*(set(each) for each in by_rank)) if by_rank else set[int]()
    found = {}
    for step in sorted(steps):
        parts = [each[step] for each in by_rank]
        seen = [
            Seen(*row) for part in parts for row in zip(part.positions, part.ids, part.contents, strict=True)
        ]
        found[step] = tuple(sorted(seen))
    return found


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: after the first commit, and when this step was logged, and then a part of a step later."""

    step: int
    part: float


@dataclass(frozen=True, slots=True)
class Killed:
    """What a kill left."""

    attempt: ObservedAttempt
    committed_step: int
    last_step: int
    """That was logged."""


class Trial:
    """Starts the run. Everything is below one folder, and nothing of the run's own directories is written.

    Args:
        specification: The run.
        training: Its work.
        folder: Empty.
        steps: Of each start, from the beginning to the end.
        every: Steps between two commits.
    """

    def __init__(self, specification: Specification, training: Training, folder: Path, steps: int, every: int) -> None:
        self._specification, self._folder = specification, folder
        # Every step's loss is compared, so every step is logged; and the way of the weights begins at the first commit.
        checkpoints = training.checkpoints.model_copy(update={"keep": max(training.checkpoints.keep, -(-steps // every))})
        self._training = training.model_copy(update={"log_every_steps": 1, "checkpoints": checkpoints})
        self._steps, self._every = steps, every

    def uninterrupted(self, processes: int) -> ObservedAttempt:
        """From step 0 to the end. Raises :class:`PodFailedError` where the run fails by itself."""
        checkpoints = self._folder / "whole-checkpoints"
        pod, witnesses = self._pod("whole", processes, checkpoints)
        with pod:
            pod.succeed()
            return observe_attempt(processes, checkpoints, witnesses, pod.events())

    def killed(self, processes: int, moments: Sequence[Moment]) -> Killed:
        """From step 0 until SIGKILL to all ranks; the first moment that is not too late counts.

        Raises:
            InvalidRunError: The run was over before each of them.
            PodFailedError: It failed by itself.
        """
        for number, moment in enumerate(moments):
            checkpoints = self._folder / f"killed-{number}-checkpoints"
            pod, witnesses = self._pod(f"killed-{number}", processes, checkpoints)
            with pod:
                if pod.wait_until(partial(_is_due, pod, moment)):
                    time.sleep(moment.part * _step_seconds(pod.heard("step")))
                    dead = _kill(pod)
                else:
                    pod.succeed()
                    dead = []
                attempt = observe_attempt(processes, checkpoints, witnesses, pod.events())
            newest = attempt.newest
            if len(dead) == processes and newest is not None and newest.step < self._steps:
                return Killed(attempt, newest.step, max(attempt.losses))
        last = moments[-1].step
        earlier = ", or let --kill-at be earlier" if last > self._every else ""
        raise InvalidRunError(
            f"the run's {self._steps} steps are over before its ranks can be killed after step {last} and a commit; raise --steps"
            f"{earlier}"
        )

    def resumed(self, killed: Killed, processes: int) -> ObservedAttempt:
        """From a copy of what the kill left to the end. Raises :class:`PodFailedError` where the run does not come there."""
        checkpoints = self._folder / f"resumed-{processes}-checkpoints"
        shutil.copytree(killed.attempt.checkpoints, checkpoints)
        pod, witnesses = self._pod(f"resumed-{processes}", processes, checkpoints)
        with pod:
            pod.succeed()
            return observe_attempt(processes, checkpoints, witnesses, pod.events())

    def _pod(self, name: str, processes: int, checkpoints: Path) -> tuple[LocalPod, Path]:
        folder = self._folder / name
        folder.mkdir()
        spec = short_run(self._specification.spec, self._training, self._steps, str(checkpoints), self._every)
        run = local_run(spec, self._specification.path, folder, processes)
        witnesses = folder / "witnesses"
        return LocalPod(run, folder, {WITNESS_ENV: f"samples:{witnesses}"}), witnesses


def draw_moments(seed: int, every: int, steps: int, kill_at: int | None) -> tuple[Moment, ...]:
    """The seed's own moment, and after it the earliest, for a run that is very quick; a step that was asked for stays."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret: the same seed kills at the same moment
    step, part = draw.randint(every, max(every, 3 * steps // 4)), draw.random()
    if kill_at is not None:
        return Moment(kill_at, part), Moment(kill_at, 0.0), Moment(kill_at, 0.0)
    return Moment(step, part), Moment(every, 0.0), Moment(every, 0.0)


def _kill(pod: LocalPod) -> list[int]:
    """Ranks that died of it. Raises :class:`PodFailedError` where the run had failed by itself when they were to be killed."""
    dead, code = pod.kill_ranks(), pod.wait()
    ended = [event["status"] for event in pod.heard("rank_ended")]
    if code and not (ended and ended[0] in (0, -signal.SIGKILL)):
        raise pod.failure(code)
    return dead


def _is_due(pod: LocalPod, moment: Moment) -> bool:
    return any(event["step"] >= moment.step for event in pod.heard("step")) and bool(pod.heard("checkpoint_committed"))


def _step_seconds(steps: Sequence[Event]) -> float:
    """Mean time between two lines."""
    moments = [datetime.fromisoformat(event["ts"]).timestamp() for event in steps]
    return (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 1 else 0.0
