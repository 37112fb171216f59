"""Attempt ledger: one line for each start and end of an attempt, beside the checkpoints.

An operator may restart a run for ever without counting (a lost peer is nobody's fault), so the ledger is what ends a loop that
makes no progress.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from trainwright_trainer.checkpoint.durable import make_directory, sync_directory
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.base import Contract, Index
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import LEDGER_FILE

PREEMPTIONS = (ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)
"""Ends that say nothing about the run."""


def _now() -> datetime:
    return datetime.now(UTC)


class AttemptStarted(Contract):
    """All pods met and an attempt began at this commit; None before the first."""

    event: Literal["started"] = "started"
    identity: str
    attempt: str
    committed_step: Index | None
    time: AwareDatetime = Field(default_factory=_now)


class AttemptEnded(Contract):
    """An attempt ended in order; one that was killed leaves no such line."""

    event: Literal["ended"] = "ended"
    identity: str
    attempt: str
    code: int
    committed_step: Index | None
    time: AwareDatetime = Field(default_factory=_now)


Event = AttemptStarted | AttemptEnded
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


class Ledger:
    """Append-only ``attempts.jsonl`` in a run's state directory. Node 0's supervisor writes it."""

    def __init__(self, directory: Path | str) -> None:
        self.path = Path(directory) / LEDGER_FILE

    def append(self, event: Event) -> None:
        """Add one line durably. Raises :class:`StorageError`."""
        make_directory(self.path.parent)
        with storage_errors("write", self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                line = ("\n" if torn else "") + event.model_dump_json() + "\n"  # never glue to what a crash cut off
                left = memoryview(line.encode())
                while len(left):
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if not size:
            sync_directory(self.path.parent)

    def events(self) -> Iterator[Event]:
        """Every event in order. Lines that are cut or damaged are passed over. Raises :class:`StorageError`."""
        with storage_errors("read", self.path):
            try:
                lines = self.path.read_bytes().splitlines()
            except FileNotFoundError:
                return
        for line in lines:
            try:
                yield _EVENT.validate_json(line)
            except ValidationError:
                continue

    def attempts_without_progress(self, identity: str, long_enough: timedelta = timedelta.max) -> int:
        """Attempts of ``identity`` that started in a row at one commit, the last one included.

        Ask after the start of the present attempt was appended: 1 then means that the last one got further, or that there was
        none. Preempted attempts do not count. A changed run is another identity and starts at 0.

        Args:
            identity: Whose attempts.
            long_enough: Between two starts, to count as progress whatever was committed; for work whose commits nobody knows.
        """
        preempted, started = set[str](), dict[str, AttemptStarted]()
        for event in self.events():
            if event.identity != identity:
                continue
            if isinstance(event, AttemptStarted):
                started[event.attempt] = event
            elif event.code in PREEMPTIONS:
                preempted.add(event.attempt)
        latest_first = list(reversed(started.values()))

        def got_nowhere(later_and_earlier: tuple[AttemptStarted, AttemptStarted]) -> bool:
            later, earlier = later_and_earlier
            return later.committed_step == earlier.committed_step and later.time - earlier.time < long_enough

        in_a_row = latest_first[:1] + [earlier for _, earlier in takewhile(got_nowhere, pairwise(latest_first))]
        return sum(start.attempt not in preempted for start in in_a_row)
