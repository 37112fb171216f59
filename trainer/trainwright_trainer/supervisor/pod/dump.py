"""Dump of a pod whose run hangs: the stacks of its ranks into files, and how each rank stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe import flight_recorder
from trainwright_trainer.observe.hang import Dumped, RankState
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.stacks import STACKS_SIGNAL, Frame, main_thread_frame
from trainwright_trainer.supervisor.event_loop import in_daemon_thread
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.rank import Rank, RankProcess

STACKS_SECONDS = 1.0
"""For ranks to write their stacks; the signal's handler does it without waiting for anything but its processor."""
SILENT_SECONDS = 5.0
"""Without a sign of life for so long, a rank gives none."""
WRITE_SECONDS = flight_recorder.ANSWER_SECONDS + 4.0
"""For the volume, which may be what hangs."""
_STATES = {"R": "running", "S": "sleeping", "D": "in uninterruptible sleep", "T": "stopped", "t": "stopped", "Z": "gone"}


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
    return Dumped(ranks=states, path=await _keep(spec, attempt, files))


async def _keep(spec: RunSpec, attempt: str, files: dict[int, str]) -> str | None:
    """The directory that the files were written to, or None."""
    reason = "the run has no state directory"
    if spec.state_directory is not None and "://" not in spec.state_directory:
        directory = Path(spec.state_directory) / f"hang-{attempt}"
        try:
            await asyncio.wait_for(in_daemon_thread(lambda: _write(directory, attempt, files)), WRITE_SECONDS)
        except OSError as error:  # TimeoutError is one
            reason = error.strerror or f"the volume did not answer within {WRITE_SECONDS:g} s"
        else:
            return str(directory)
    for rank, text in files.items():
        get_log().error("stacks", rank=rank, reason=reason, text=text)
    return None


def _write(directory: Path, attempt: str, files: dict[int, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for rank, text in files.items():
        (directory / f"rank-{rank}.txt").write_text(text)
    flight_recorder.collect(attempt, list(files), directory)


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
