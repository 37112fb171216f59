"""Run by writers.py: forks real writers, so that each is killed within milliseconds of its start.

Reads a JSON command a line, says ``started PID``, ``leased TERM``, ``committed STEP`` after each commit returned, and ``ended
STATUS``, where LOST means that a newer attempt took over.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, LeaseLostError, LeaseTiming, StorageError

CHUNK_BYTES = 4096
FILES = ("model.safetensors", "optimizer/rank-0.safetensors", "by-library")
CHANGES = ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir")
LOST = 7


def content(step: int, attempt: str, name: str) -> bytes:
    """The only right bytes of a file; 0 to 255 KiB."""
    key = hashlib.sha256(f"{step}/{attempt}/{name}".encode()).digest()
    return hashlib.shake_256(key).digest(key[0] * 1024 + key[1])


def pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), 10_000):
        yield data[at : at + 10_000]


def write_step(store: CheckpointStore, step: int, attempt: str) -> None:
    draft = store.begin(step, attempt)
    digests = [draft.write(name, pieces(content(step, attempt, name))) for name in FILES[:2]]
    draft.path(FILES[2]).write_bytes(content(step, attempt, FILES[2]))
    digests.append(draft.digest_existing(FILES[2]))
    store.commit(
        CommitRecord(identity="i", attempt=attempt, step=step, samples_consumed=step, world_size=1, files=tuple(digests))
    )
    say(f"committed {step}")
    store.retain(2, attempt)


def write(directory: str, attempt: str, steps: int, timing: LeaseTiming) -> None:
    store = CheckpointStore(directory, chunk_bytes=CHUNK_BYTES)
    lease = store.acquire_lease("i", attempt, timing)
    say(f"leased {lease.holder.term}")
    latest = store.latest_good()
    first = latest.step + 1 if latest else 1
    try:
        for step in range(first, first + steps):
            write_step(store, step, attempt)
    except (StorageError, OSError):
        lease.check()  # the newer attempt cleaned up what this one was writing
        raise
    lease.release()


def run(command: dict[str, Any]) -> int:
    """The exit status of a writer that is not killed."""
    if command["die_before"] is not None:
        die_before_change(command["die_before"])
    try:
        write(command["directory"], command["attempt"], command["steps"], LeaseTiming(**command["timing"]))
    except LeaseLostError:
        return LOST
    return 0


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def die_before_change(number: int) -> None:
    """End this process by SIGKILL just before its change ``number`` (from 0) to the file system."""
    left = number

    def count(*_: object) -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    sys.addaudithook(lambda event, _: count() if event in CHANGES else None)
    os.fsync = _after(count, os.fsync)  # type: ignore[assignment]  # there is no audit event for it


def _after(count: Callable[[], None], fsync: Callable[[int], None]) -> Callable[[int], None]:
    def counted(descriptor: int) -> None:
        count()
        fsync(descriptor)

    return counted


def main() -> None:
    if sys.argv[1:] == ["s3"]:
        import trainwright_trainer.checkpoint.object_volume  # noqa: F401  once, and not in every child
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(run(command))
        say(f"started {child}")
        say(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


if __name__ == "__main__":
    main()
