"""What a pod knows of its ranks: where they are, what their time goes into, how fast each is, and whether one hangs.

Of a run that hangs it writes the stacks of the ranks into files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import get_args

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.spec import Lifecycle, RunSpec, Script
from trainwright_trainer.contract.spec import Watchdog as WatchdogLimits
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe import flight_recorder
from trainwright_trainer.observe.hang import Dumped, RankState, Stuck
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Gathering, Measurements, Timesheet
from trainwright_trainer.observe.stacks import Frame, main_thread_frame
from trainwright_trainer.rank.messages import Committed, FromRankMessage, Heartbeat, Measured, Pace, PhaseChanged, Result
from trainwright_trainer.run.link import STACKS_SIGNAL
from trainwright_trainer.supervisor.event_loop import in_daemon_thread
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.rank import Rank, RankProcess
from trainwright_trainer.supervisor.wire.messages import Paces, Position, Times

STACKS_SECONDS = 1.0
"""For ranks to write their stacks; the signal's handler does it without waiting for anything but its processor."""
SILENT_SECONDS = 5.0
"""Without a sign of life for so long, a rank gives none."""
WRITE_SECONDS = flight_recorder.ANSWER_SECONDS + 4.0
"""For the volume, which may be what hangs."""
STOPPED = "stopped"
_STATES = {"R": "running", "S": "sleeping", "D": "in uninterruptible sleep", "T": STOPPED, "t": STOPPED, "Z": "gone"}
CHECK_SECONDS = 1.0
EMPTY_ATTEMPTS = "trainwright_attempts_without_commit"
OVER_ALL_ATTEMPTS = ("trainwright_attempt", "trainwright_down_seconds", "trainwright_goodput", EMPTY_ATTEMPTS)
"""Metrics that only a pod serves that was told of the earlier attempts: in an elastic run another pod in each round."""


class Observer:
    """Of one attempt. All times are on the event loop's clock.

    A script is watched once it speaks, and then its time is split into the phases that it tells.
    """

    def __init__(self, spec: RunSpec, ranks: Sequence[Rank], past: Past, measurements: Measurements, now: float) -> None:
        self._ranks, self._measurements = ranks, measurements
        self._is_script = isinstance(spec.work, Script)
        self._watchdog = Watchdog(spec.lifecycle, warm_up_seconds(spec), tells_all=not self._is_script)
        self._times = Timesheet(past, now)
        self._paces = Gathering(len(ranks))
        self._knows_past = past.attempts > 0
        measurements.forget(OVER_ALL_ATTEMPTS)
        if not self._is_script:
            measurements.update_labelled("trainwright_phase", _at_work_on("starting"))
        if self._knows_past:
            measurements.update({"trainwright_attempt": past.attempts})
        if self._knows_past and spec.work.checkpoints is not None:
            measurements.update({"trainwright_down_seconds": past.down_seconds, EMPTY_ATTEMPTS: past.attempts_without_progress})

    def heard(self, rank: Rank, message: FromRankMessage, now: float) -> Paces | Times | None:
        """Take what a rank said. Gives what node 0 should hear: how the time goes, and once all have told it, the pod's paces."""
        if isinstance(message, Pace):
            times = self._paces.add({rank.number: message.split})
            return Paces(step=message.step, times=times) if times else None
        if rank is self._ranks[0]:
            match message:
                case PhaseChanged() | Measured():
                    self._times.follow(rank.phase, rank.step, now)
                case Result():
                    self._times.close(now)
                case Committed(seconds=seconds) if seconds > 0 and self._knows_past:  # 0: restored, not saved
                    self._measurements.update({EMPTY_ATTEMPTS: 0})
            self._measurements.update_labelled("trainwright_phase", _at_work_on(rank.phase))
            self._measurements.update_labelled("trainwright_phase_seconds", self._times.seconds(now))
            if self._knows_past:
                self._measurements.update({"trainwright_goodput": self._times.goodput(now)})
            return Times(seconds=self._times.seconds(now), step=self._times.last_step) if rank.number == 0 else None
        return None

    def stuck(self, now: float) -> Stuck | None:
        """The rank that has made no progress for longer than it may, if there is one."""
        return self._watchdog.stuck([rank for rank in self._ranks if rank.beat is not None or not self._is_script], now)


def _at_work_on(phase: Phase) -> dict[str, float]:
    """1 for a phase, and 0 for the others: what nobody says any more would be served for ever."""
    return {one: float(one == phase) for one in get_args(Phase)}


def warm_up_seconds(spec: RunSpec) -> float:
    """Without progress in the first batch. It is a step like the others where nothing is compiled, and ends as one does in which
    a rank waits for another for ever; a run that states a limit means it.
    """
    limits, work = spec.lifecycle.watchdog or WatchdogLimits(), spec.work
    stated = "warming_up_seconds" in limits.model_fields_set
    if stated or not isinstance(work, Training) or work.compile or work.engine == "tensorflow":
        return limits.warming_up_seconds
    return min(limits.warming_up_seconds, limits.training_seconds)


class Watchdog:
    """One per pod.

    Args:
        warm_up: Seconds for that phase, if not the lifecycle's own.
        tells_all: Whether ranks tell each phase. Between two steps others may evaluate or save, and nobody knows.
    """

    def __init__(self, lifecycle: Lifecycle, warm_up: float | None = None, *, tells_all: bool = True) -> None:
        self._limits = lifecycle.watchdog or WatchdogLimits()
        self._warm_up = self._limits.warming_up_seconds if warm_up is None else warm_up
        self._save_seconds, limits = lifecycle.save_seconds, self._limits
        means_it = tells_all or "training_seconds" in limits.model_fields_set
        self._step_seconds = limits.training_seconds if means_it else max(limits.training_seconds, limits.saving_seconds)

    def stuck(self, ranks: Iterable[Rank], now: float) -> Stuck | None:
        """The rank that has exceeded its limit by most, if one has. ``now`` is on the event loop's clock."""
        worst: tuple[float, Stuck] | None = None
        for rank in ranks:
            if not rank.alive or rank.result is not None:
                continue
            idle, limit = now - rank.progressed_at, self.limit(rank.phase, rank.beat)
            if idle > limit and (worst is None or idle / limit > worst[0]):
                doing = rank.phase.replace("_", " ")
                why = f"has been {doing} for {idle:.0f} s without progress, and {limit:g} s is the limit"
                worst = idle / limit, Stuck(rank=rank.number, why=why)
        return worst[1] if worst else None

    def limit(self, phase: Phase, beat: Heartbeat | None) -> float:
        """Seconds without progress that a phase allows. A step may take several times as long as those before it."""
        limits = self._limits
        match phase:
            case "starting":
                return limits.starting_seconds
            case "restoring":
                return limits.restoring_seconds
            case "warming_up":
                return self._warm_up
            case "saving" | "finished":  # what follows the last step is the marker on the volume
                return max(limits.saving_seconds, limits.slowdown * self._save_seconds)
            case "training" | "evaluating":
                usual = beat.tick_seconds if beat is not None and beat.tick_seconds is not None else 0.0
                return max(self._step_seconds, limits.slowdown * usual)


class PositionQuery:
    """Open until every rank has answered, is past its last tick, or cannot take part."""

    def __init__(self, request: int, pod: str, ranks: Sequence[Rank]) -> None:
        self._request, self._pod, self._ranks = request, pod, ranks
        self._ticks: dict[int, int | None] = {}

    def answer(self, rank: Rank, request: int, tick: int | None) -> None:
        if request == self._request:
            self._ticks[rank.number] = tick

    def position(self) -> Position | None:
        """The pod's answer; None while it is open."""
        if not self._ranks:
            return self._absent(f"{self._pod} has not started its ranks")
        ticks = list[int]()
        for rank in self._ranks:
            if _past_the_end(rank):
                continue
            if not rank.alive:
                return self._absent(f"rank {rank.number} of {self._pod} has ended")
            if rank.number not in self._ticks:
                return None
            tick = self._ticks[rank.number]
            if tick is None:
                return self._absent(f"rank {rank.number} of {self._pod} is still {rank.phase}")
            ticks.append(tick)
        return Position(request=self._request, tick=max(ticks, default=None))

    def _absent(self, why: str) -> Position:
        return Position(request=self._request, absent=why)


def _past_the_end(rank: Rank) -> bool:
    return rank.phase == "finished" or (rank.outcome is not None and rank.outcome.code is ExitCode.DONE)


async def dump(spec: RunSpec, place: PodPlace, attempt: str, ranks: Sequence[Rank]) -> Dumped:
    """Ask every rank for its stacks and write them to ``hang-<attempt>/rank-<R>.txt`` in the state directory.

    Where that cannot be written in time, or there is none, the stacks go to the log.
    """
    asked = [rank for rank in ranks if rank.alive]
    for rank in asked:
        if rank.stacks.read():  # else it has no handler yet, and the signal would end it
            rank.signal(STACKS_SIGNAL)
    await asyncio.sleep(STACKS_SECONDS)
    texts = {rank: rank.stacks.read() for rank in asked if rank.alive}
    frames = {rank: main_thread_frame(text) for rank, text in texts.items()}
    states = tuple(_state(rank, place, frame) for rank, frame in frames.items())
    for state in states:
        get_log().error("rank_hangs", **state.model_dump(exclude={"pod"}, exclude_none=True))
    files = {rank.number: _page(state, text) for (rank, text), state in zip(texts.items(), states, strict=True)}
    stopped = {state.rank for state in states if state.process == STOPPED}
    return Dumped(ranks=states, path=await _keep(spec, attempt, files, stopped))


async def _keep(spec: RunSpec, attempt: str, files: dict[int, str], stopped: Collection[int]) -> str | None:
    """The directory that the files were written to, or None."""
    reason = "the run has no state directory"
    if spec.state_directory is not None and "://" not in spec.state_directory:
        directory = Path(spec.state_directory) / f"hang-{attempt}"
        try:
            await asyncio.wait_for(in_daemon_thread(lambda: _write(directory, attempt, files, stopped)), WRITE_SECONDS)
        except OSError as error:  # TimeoutError is one
            reason = error.strerror or f"the volume did not answer within {WRITE_SECONDS:g} s"
        else:
            return str(directory)
    for rank, text in files.items():
        get_log().error("stacks", rank=rank, reason=reason, text=text)
    return None


def _write(directory: Path, attempt: str, files: dict[int, str], stopped: Collection[int]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for rank, text in files.items():
        (directory / f"rank-{rank}.txt").write_text(text)
    flight_recorder.collect(attempt, list(files), stopped, directory)


def _state(rank: Rank, place: PodPlace, frame: Frame | None) -> RankState:
    now = asyncio.get_running_loop().time()
    silent = rank.beat is None or now - rank.beat_at > SILENT_SECONDS
    return RankState(
        rank=rank.number, pod=place.short, phase=rank.phase, step=rank.step,
        marks=None if silent or rank.beat is None else rank.beat.marks,
        idle_seconds=round(now - rank.progressed_at, 1), process=_process(rank), frame=None if frame is None else str(frame),
        waits_for_others=frame is not None and frame.waits_for_others,
    )


def _process(rank: Rank) -> str:
    """The kernel's word for the state of the main thread, which has the number of its process (proc_pid_stat(5))."""
    if not isinstance(rank, RankProcess):
        return "unknown"  # on another machine, or a child of a launcher
    try:
        letter = Path(f"/proc/{rank.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "unknown"
    return _STATES.get(letter, letter)


def _page(state: RankState, stacks: str) -> str:
    facts = "".join(f"{key}: {value}\n" for key, value in state.model_dump(exclude={"frame", "waits_for_others"}).items())
    return facts + "\n" + (stacks or "no stacks: the rank has not come far enough to be asked\n")
