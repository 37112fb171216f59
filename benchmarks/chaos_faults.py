"""What can befall a run, and what is asked of the run then."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.chaos_run import PODS, POLL_SECONDS, BrokenPromiseError, ChaosRun, send

from trainwright_trainer import __version__
from trainwright_trainer.checkpoint import CommitRecord

LEAVE_SECONDS = 5.0
"""For every pod to be gone, beyond the limit after which a silent peer counts as lost."""

ALL = tuple(range(PODS))

Demand = Literal["ends", "goes on", "either"]
"""Of the run after a fault: that all of its pods end, that none does, or that all do the same. Of the attempt, in place."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that has happened."""

    demand: Demand
    since: float
    """Monotonic time from which the seconds count until every pod is gone."""
    detail: str
    has_thawed: bool = False
    """Whether the limit for a silent peer was over before."""
    pods: tuple[int, ...] = ()
    """Nodes whose pods end, also where the run recovers in place."""
    lost_step: int | None = None
    """Of the commit that the fault itself has damaged."""
    meanwhile: Callable[[], None] = _nothing
    """What happens in the next attempt while node 0 waits for the others."""


Fault = Callable[[ChaosRun, random.Random], Struck]


def kill_rank(run: ChaosRun, dice: random.Random) -> Struck:
    node = dice.randrange(PODS)
    for pid in run.ranks(node):
        send(pid, signal.SIGKILL)
    return Struck("ends", time.monotonic(), f"rank {node}")


def kill_supervisor(run: ChaosRun, dice: random.Random) -> Struck:
    node = dice.randrange(PODS)
    send(run.pods[node].pid, signal.SIGKILL)
    return Struck("ends", time.monotonic(), f"supervisor of node {node}", pods=(node,))


def kill_pod(run: ChaosRun, dice: random.Random) -> Struck:
    node = dice.randrange(PODS)
    run.signal(node, signal.SIGKILL)
    return Struck("ends", time.monotonic(), f"node {node}", pods=(node,))


def stop_rank(run: ChaosRun, dice: random.Random) -> Struck:
    """For less time than anybody's patience."""
    node, seconds = dice.randrange(PODS), dice.uniform(0.2, 3.0)
    stopped = run.ranks(node)
    for pid in stopped:
        send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in stopped:
        send(pid, signal.SIGCONT)
    return Struck("goes on", time.monotonic(), f"rank {node} for {seconds:.1f} s")


def freeze_pod(run: ChaosRun, dice: random.Random) -> Struck:
    """For half the limit after which a peer counts as lost."""
    node, seconds = dice.randrange(PODS), run.spec.lifecycle.peer_lost_seconds / 2
    run.signal(node, signal.SIGSTOP)
    time.sleep(seconds)
    run.signal(node, signal.SIGCONT)
    return Struck("goes on", time.monotonic(), f"node {node} for {seconds:.1f} s")


def freeze_pod_for_good(run: ChaosRun, dice: random.Random) -> Struck:
    """Longer than the others wait: they have left the attempt before it thaws, and it leaves at once when it does."""
    node = dice.randrange(PODS)
    others = [other for other in range(PODS) if other != node]
    limit = run.spec.lifecycle.peer_lost_seconds + LEAVE_SECONDS
    left = {other: run.attempts_left(other) for other in others}
    run.signal(node, signal.SIGSTOP)
    frozen = time.monotonic()
    while any(run.processes(other) and run.attempts_left(other) == before for other, before in left.items()):
        if time.monotonic() - frozen > limit:
            run.signal(node, signal.SIGCONT)
            raise BrokenPromiseError(f"node {node} is frozen, and the others are still there after {limit:g} s")
        time.sleep(POLL_SECONDS)
    seconds = time.monotonic() - frozen
    time.sleep(dice.uniform(0.0, 3.0))
    run.signal(node, signal.SIGCONT)
    return Struck("ends", time.monotonic(), f"node {node}; the others left after {seconds:.1f} s", has_thawed=True)


def sigterm_storm(run: ChaosRun, dice: random.Random) -> Struck:
    """Some seconds of SIGTERMs to one pod or to both."""
    nodes = dice.choice([[0], [1], [0, 1]])
    times = sorted(dice.uniform(0.0, 2.0) for _ in range(dice.randrange(1, 20)))
    since = time.monotonic()
    for moment in times:
        time.sleep(max(0.0, since + moment - time.monotonic()))
        for node in nodes:
            if run.pods[node].code is None:
                send(run.pods[node].pid, signal.SIGTERM)
    return Struck("ends", since, f"{len(times)} times to {' and '.join(f'node {node}' for node in nodes)}", pods=tuple(nodes))


def fill_disk(run: ChaosRun, dice: random.Random) -> Struck:
    """No file of a rank grows any more, for a moment: RLIMIT_FSIZE needs no rights, and gives EFBIG for ENOSPC."""
    node, seconds = dice.randrange(PODS), dice.uniform(0.2, 3.0)
    # A pod's log goes to the container runtime in a cluster, and to a file here: that may grow.
    room = max(log.stat().st_size for log in run.folder.glob("attempt-*/pod-*/pod.log")) + 64 * 2**10
    full = run.ranks(node)
    for pid in full:
        _limit_files(pid, room)
    time.sleep(seconds)
    for pid in full:
        _limit_files(pid, resource.RLIM_INFINITY)
    return Struck("either", time.monotonic(), f"rank {node} for {seconds:.1f} s")


def _limit_files(pid: int, size: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def damage_newest(run: ChaosRun, dice: random.Random) -> Struck:
    """All nodes fail, and what was committed last is not what was written."""
    since = _kill_all(run)
    records = run.records()
    if len(records) < 2:
        return Struck("ends", since, "both pods; nothing to damage", pods=ALL)
    newest, before = records[:2]
    damage = dice.choice([_truncate, _zero, _flip, _swap, _put_back, _remove])
    detail = damage(run, newest, before, dice)
    if not run.store.verify(newest):  # zeros where zeros were, or one file twice
        return Struck("ends", since, f"both pods; {detail}, which changed nothing", pods=ALL)
    return Struck("ends", since, f"both pods; step {newest.step}: {detail}", pods=ALL, lost_step=newest.step)


def _pick(run: ChaosRun, record: CommitRecord, dice: random.Random) -> Path:
    return run.store.path(record, dice.choice([file.name for file in record.files if file.size]))


def _truncate(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    path = _pick(run, newest, dice)
    os.truncate(path, dice.randrange(path.stat().st_size))
    return f"{path.name} torn"


def _zero(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    path = _pick(run, newest, dice)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(start := dice.randrange(size))
        file.write(bytes(min(4096, size - start)))
    return f"{path.name} with zeros"


def _flip(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    path = _pick(run, newest, dice)
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return f"{path.name} with a bit flipped"


def _swap(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    one, other = (run.store.path(newest, file.name) for file in dice.sample(newest.files, 2))
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return f"{one.name} and {other.name} swapped"


def _put_back(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    path = _pick(run, newest, dice)
    older = path.parent.parent / f"step-{before.step}.{before.attempt}" / path.relative_to(_tree(run, newest))
    if older.exists():
        path.write_bytes(older.read_bytes())
    return f"{path.name} of step {before.step}"


def _tree(run: ChaosRun, record: CommitRecord) -> Path:
    return run.store.directory / f"step-{record.step}.{record.attempt}"


def _remove(run: ChaosRun, newest: CommitRecord, before: CommitRecord, dice: random.Random) -> str:
    path = _pick(run, newest, dice)
    path.unlink()
    return f"{path.name} removed"


def stranger(run: ChaosRun, dice: random.Random) -> Struck:
    """Somebody else on the control port while the run trains."""
    detail = _intrude(run, dice)
    return Struck("goes on", time.monotonic(), detail)


def early_stranger(run: ChaosRun, dice: random.Random) -> Struck:
    """Somebody else on the control port of the next attempt, while node 0 waits for its pods."""
    since, own = _kill_all(run), random.Random(dice.random())

    def intrude() -> None:
        run.wait_for_control_port()
        _intrude(run, own)

    return Struck("ends", since, "both pods", pods=ALL, meanwhile=intrude)


def _kill_all(run: ChaosRun) -> float:
    """Gives the time."""
    for node in range(PODS):
        run.signal(node, signal.SIGKILL)
    since = time.monotonic()
    while run.everybody():
        time.sleep(POLL_SECONDS)
    return since


def _intrude(run: ChaosRun, dice: random.Random) -> str:
    mine = hashlib.sha256(run.specification_bytes).hexdigest()
    other = hashlib.sha256(dice.randbytes(8)).hexdigest()
    lines = {
        "random bytes": dice.randbytes(500) + b"\n",
        "an HTTP request": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "half a line": b'{"type": "join", "node": 1, ',
        "nothing, and stays": b"",
        "a worker of another run": _said(_knock("another-run-1"), _join(1, other, "another-run-1")),
        "a pod that does not exist": _said(_knock(run.spec.identity), _join(7, mine, run.spec.identity)),
        "a worker of an attempt before": _said(_knock(run.spec.identity), _join(1, mine, run.spec.identity)),
        "the digest alone": _said(_join(1, mine, run.spec.identity)),
        "a long line": b"x" * 2**20,
    }
    what = dice.choice(sorted(lines))
    with ExitStack() as connections:
        for _ in range(dice.choice([1, 1, 50])):
            with suppress(OSError):
                connection = connections.enter_context(socket.create_connection(run.control, timeout=2))
                connection.sendall(lines[what])
        time.sleep(dice.uniform(0.1, 2.0))
    return what


def _knock(identity: str) -> dict[str, object]:
    return {"type": "knock", "identity": identity}


def _join(node: int, sha256: str, identity: str) -> dict[str, object]:
    """Of an attempt that is not this one."""
    said = {"type": "join", "node": node, "host": "stranger", "sha256": sha256, "version": __version__}
    return {**said, "identity": identity, "attempt": "0123456789ab"}


def _said(*messages: dict[str, object]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


FAULTS: dict[str, Fault] = {
    "SIGKILL of a rank": kill_rank,
    "SIGKILL of a supervisor": kill_supervisor,
    "SIGKILL of a pod": kill_pod,
    "SIGSTOP of a rank": stop_rank,
    "SIGTERM storm": sigterm_storm,
    "full disk": fill_disk,
    "torn or swapped file": damage_newest,
    "stranger": stranger,
    "stranger before the start": early_stranger,
    "frozen pod": freeze_pod,
    "frozen pod, beyond the limit": freeze_pod_for_good,
}
