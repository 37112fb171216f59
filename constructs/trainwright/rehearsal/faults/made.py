"""Faults that a rehearsal makes: what a cluster does to a run sooner or later, at a step that the caller names."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trainwright.operators.ending import Decision, PodEnd
from trainwright.rehearsal.controller import RunController, StopRequest, StopRequests
from trainwright.rehearsal.processes.kubelet import PodRun, descendants
from trainwright.rehearsal.progress import Progress
from trainwright.rehearsal.setting import FaultKind, Setting
from trainwright.rehearsal.stated.objects import Objects, Slot, UsageError

_OF_PODS = frozenset({"preempt", "node-lost", "oom", "partition"})
_CHAOS: tuple[FaultKind, ...] = ("kill", "preempt", "oom")
_REQUEST = re.compile(r"(?P<who>[a-z0-9][a-z0-9-]*)@(?P<at>\d+(?:\.\d+)?)(?P<seconds>s?)")
_RANK = re.compile(r"rank-?(\d+)")
_TOLD_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
"""Variables in which MPI tells a process its rank. Others have RANK, and with it LOCAL_RANK: an operator sets RANK for a pod."""
POLL_SECONDS = 0.01
COMMITS = "commits"
"""Folder of a lineage with a record for each checkpoint."""


class Fault(NamedTuple):
    """What is done to whom, and when."""

    kind: FaultKind
    pod: Slot | None = None
    rank: int | None = None
    step: float | None = None
    """Once so many steps are done."""
    seconds: float | None = None
    """So many after the first pod runs, of a run that tells no steps."""
    share: float | None = None
    """Once this share of all steps is done."""

    def __str__(self) -> str:
        return f"{self.kind} {self.pod.name if self.pod else f'rank {self.rank}'}"


def faults(requests: Sequence[tuple[FaultKind, str]], count: int, seed: int, objects: Objects) -> list[Fault]:
    """Those that were asked for, and so many by chance, spread over the run and the same for the same seed.

    Raises :class:`UsageError` for a request that cannot be read, or names nobody.
    """
    asked = sorted((_read(*request, objects) for request in requests), key=lambda one: one.step or one.seconds or 0.0)
    chosen = random.Random(seed)  # noqa: S311 - no secret
    shares = sorted(chosen.uniform(0.1, 0.9) for _ in range(count))
    return asked + [Fault(chosen.choice(_CHAOS), chosen.choice(objects.slots), share=share) for share in shares]


def _read(kind: FaultKind, text: str, objects: Objects) -> Fault:
    match = _REQUEST.fullmatch(text)
    pods = {f"{slot.made.role}-{slot.made.index}": slot for slot in objects.slots}
    rank = _RANK.fullmatch(match["who"]) if match else None
    pod = pods.get(match["who"]) if match else None
    if match is None or not (pod or rank) or (pod and kind == "hang") or (rank and kind in _OF_PODS):
        who = "rank-N" if kind == "hang" else ", ".join(pods) + (" or rank-N" if kind == "kill" else "")
        raise UsageError(f"--{kind} {text}: write WHO@STEP, or WHO@SECONDSs where the run tells no steps; here WHO is {who}")
    at = float(match["at"])
    step, seconds = (None, at) if match["seconds"] else (at, None)
    return Fault(kind, pod, int(rank[1]) if rank and pod is None else None, step, seconds)


@dataclass
class Incident:
    """A fault that was made, and what the controller did then."""

    fault: Fault
    at: float
    decisions: list[tuple[PodEnd, Decision, float]] = field(default_factory=list)
    """Each with the seconds that it waits here."""
    damaged: str = ""
    """The checkpoint that was damaged right before."""


class Faults:
    """Makes faults one after another: the next one waits until the run has recovered from the last.

    Args:
        corrupt: Whether the newest checkpoint is damaged right before the first.
    """

    def __init__(
        self, left: Sequence[Fault], corrupt: bool, setting: Setting, progress: Progress, runs: RunController,
        stops: StopRequests, say: Callable[[str], None],
    ) -> None:
        self.left, self.incidents = list(left), list[Incident]()
        self._corrupt, self._patience = corrupt, setting.options.patience_seconds
        self._setting, self._progress, self._runs, self._stops, self._say = setting, progress, runs, stops, say
        self._started = time.monotonic()

    async def run(self) -> None:
        """Make all of them; ends when the run has recovered from the last one, or is told to stop because it does not."""
        while self.left:
            fault = self.left[0]
            while not self._is_time(fault):
                await asyncio.sleep(POLL_SECONDS)
            damaged = ""
            if self._corrupt:
                try:
                    self._corrupt, damaged = False, damage_newest(self._setting)
                except UsageError as error:
                    return self._stops.add(StopRequest("NoCheckpoint", str(error)))
            while not (done := self._make(fault)):
                await asyncio.sleep(POLL_SECONDS)
            incident = Incident(fault, done, damaged=damaged)
            self.incidents.append(incident)
            self.left.pop(0)
            self._say(f"{fault}{f' at step {step}' if (step := self._progress.step) else ''}")
            if self._progress.moments or fault.kind == "node-lost":  # which ends no pod, so that the run could not end
                await self._recovered(incident)

    def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
        """Note what a controller does: it follows from the last fault."""
        if self.incidents:
            self.incidents[-1].decisions.append((end, decision, delay_seconds))

    def _is_time(self, fault: Fault) -> bool:
        if fault.seconds is not None:
            return bool(self._runs.running) and time.monotonic() >= self._started + fault.seconds
        done, total = self._progress.step, self._progress.total
        wanted = fault.step if fault.share is None else total and fault.share * total
        return done is not None and wanted is not None and done >= wanted

    def _make(self, fault: Fault) -> float | None:
        """Do it. Returns when, or None while whom it is done to does not run."""
        if fault.pod is None:
            return self._signal(fault.rank, signal.SIGSTOP if fault.kind == "hang" else signal.SIGKILL)
        run = self._runs.running.get(fault.pod.number)
        if run is None or not run.runs(fault.pod.spec.main.name):
            return None
        at = time.monotonic()
        match fault.kind:
            case "kill":
                run.kill()
            case "oom":
                run.kill(fault.pod.spec.main.name)
            case "preempt":
                run.disrupt()
            case "node-lost":
                self._setting.network.plug(fault.pod.number, "out")  # nothing tells its peers that it has ended
                run.lose_node()
            case "partition":
                self._setting.network.plug(fault.pod.number, "out")
                mend = partial(self._setting.network.plug, fault.pod.number, "in")
                asyncio.get_running_loop().call_later(self._setting.options.parted_seconds, mend)
        return at

    def _signal(self, rank: int | None, number: int) -> float | None:
        found = next((pid for run in self._runs.running.values() for pid in _processes(run, rank)), None)
        if found is None:
            return None
        at = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(found, number)
        return at

    async def _recovered(self, incident: Incident) -> None:
        deadline = incident.at + self._patience
        while self._progress.recovery(incident.at) is None:
            if time.monotonic() > deadline:
                self._stops.add(StopRequest("NoRecovery", f"no step was done for {self._patience:g} s after {incident.fault}"
                                            f"{_WHY.get(incident.fault.kind, '')}"))
                return
            await asyncio.sleep(POLL_SECONDS)


_WHY = {
    "node-lost": ": its pod stays Terminating, and its index gets no other one until the Node object is removed or tainted "
    "out-of-service",
    "hang": ": nothing ends a rank that hangs",
}


def _processes(run: PodRun, rank: int | None) -> Iterator[int]:
    """The processes of a rank, the first one before those that it has started."""
    for root in run.roots:
        for pid in descendants(root):
            if pid != root and _rank_of(pid) == rank:
                yield pid


def _rank_of(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        values = dict(word.partition("=")[::2] for word in words)
        told = next((values[name] for name in _TOLD_RANKS if name in values), None)
        return int(told if told is not None else values["RANK"] if "LOCAL_RANK" in values else "")
    return None


def damage_newest(setting: Setting) -> str:
    """Change a byte in the middle of the largest file of the newest checkpoint that is committed. Returns its folder.

    Raises :class:`UsageError` where there is none that our trainer has made.
    """
    roots = [setting.workspace.claims / name for name in setting.writable_claims] + [setting.workspace.stores]
    records = [one for root in roots for one in root.rglob(f"{COMMITS}/step-*.json")]
    folders = [one.parent.parent / one.stem for one in sorted(records, key=lambda one: one.stat().st_mtime)]
    files = [one for folder in folders[-1:] for one in folder.rglob("*") if one.is_file()]
    if not files:
        raise UsageError("--corrupt newest: no checkpoint of our trainer is committed yet; name a later step, or train first")
    largest = max(files, key=lambda one: one.stat().st_size)
    with largest.open("r+b") as stream:
        stream.seek(largest.stat().st_size // 2)
        byte = stream.read(1)
        stream.seek(-len(byte), os.SEEK_CUR)
        stream.write(bytes(value ^ 0xFF for value in byte))
    return str(folders[-1])
