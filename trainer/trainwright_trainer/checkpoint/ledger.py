"""What stays beside the checkpoints between attempts: the ledger of attempts, and the COMPLETE marker.

An operator may restart a run forever without counting (a lost peer is nobody's fault), so the ledger is what ends a loop that
makes no progress. The marker says which identity reached its target: a finished index of a Job never comes back, so a pod that
dies in teardown must not wait for its peers; its replacement finds the marker and ends at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from trainwright_trainer.checkpoint.volume import Attempt, open_volume
from trainwright_trainer.contract.base import Contract, Elapsed, Index
from trainwright_trainer.contract.exit_codes import Disposition, ExitCode, codes_with
from trainwright_trainer.contract.layout import COMPLETE_MARKER, LEDGER_FILE
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted, AttemptTimes, Event, events_in

PREEMPTIONS = (ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)
"""Ends that say nothing about the run."""
RETRIED = frozenset(codes_with(Disposition.COUNTED)) - {ExitCode.NODE_UNHEALTHY}
"""Ends of attempts that count as restarts inside pods. An unhealthy node's pod ends, so that its controller counts it."""


class Past(Contract):
    """The attempts at an identity until one begins, that one included."""

    attempts: Index = 0
    age_seconds: Elapsed = 0
    """Since the first of them began."""
    productive_seconds: Elapsed = 0
    """For steps that were done for the first time."""
    down_seconds: Elapsed = 0
    """In which no attempt is known to have been at work."""
    attempts_without_progress: Index = 0
    """Of them in a row, up to this one, began at the same commit; those that were preempted do not count."""
    retries: Index = 0
    """Of them, those that failed by themselves, since the last time that the retries were spent."""
    reached_step: Index = 0
    """Highest step that any of them is known to have done."""


class Ledger:
    """Append-only ``attempts.jsonl`` in a run's state directory, a path or an address. Node 0's supervisor writes it."""

    def __init__(self, directory: Path | str) -> None:
        self._volume = open_volume(directory)

    def append(self, event: Event) -> None:
        """Add one line durably. Raises :class:`StorageError`."""
        self._volume.append(LEDGER_FILE, event.model_dump_json().encode())

    def events(self) -> Iterator[Event]:
        """Every event in order. Lines that are cut or damaged are passed over. Raises :class:`StorageError`."""
        yield from events_in(self._volume.read(LEDGER_FILE) or b"")

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
            elif isinstance(event, AttemptEnded) and event.code in PREEMPTIONS:
                preempted.add(event.attempt)
        latest_first = list(reversed(started.values()))

        def got_nowhere(later_and_earlier: tuple[AttemptStarted, AttemptStarted]) -> bool:
            later, earlier = later_and_earlier
            return later.committed_step == earlier.committed_step and later.time - earlier.time < long_enough

        in_a_row = latest_first[:1] + [earlier for _, earlier in takewhile(got_nowhere, pairwise(latest_first))]
        return sum(start.attempt not in preempted for start in in_a_row)

    def past(self, identity: str) -> Past:
        """What the attempts at ``identity`` have come to. Ask after the start of the present attempt was appended."""
        started, seen, times = dict[str, datetime](), dict[str, datetime](), dict[str, AttemptTimes]()
        retries = 0
        for event in self.events():
            if event.identity != identity:
                continue
            if isinstance(event, AttemptStarted):
                started[event.attempt] = event.time
            elif isinstance(event, AttemptTimes):
                times[event.attempt] = event
            elif event.code == ExitCode.RETRIES_SPENT:
                retries = 0
            else:
                retries += event.code in RETRIED
            seen[event.attempt] = event.time
        if not started:
            return Past()
        starts = list(started.items())
        gaps = [(after - seen[attempt]).total_seconds() for (attempt, _), (_, after) in pairwise(starts)]
        return Past(
            attempts=len(starts),
            age_seconds=max(0.0, (starts[-1][1] - starts[0][1]).total_seconds()),
            productive_seconds=sum(noted.seconds.get("training", 0.0) for noted in times.values()),
            down_seconds=sum(max(0.0, gap) for gap in gaps),  # the clocks of two machines may differ
            retries=retries,
            reached_step=max((noted.step or 0 for noted in times.values()), default=0),
        )


class Complete(Contract):
    """The identity that reached its target, at which step, in which attempt."""

    identity: str
    step: Index
    attempt: Attempt
    completed_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


def write_complete(directory: Path | str, identity: str, step: int, attempt: str) -> Complete:
    """Write the marker, after the final commit; it replaces one of an earlier identity. Raises :class:`StorageError`."""
    complete = Complete(identity=identity, step=step, attempt=attempt)
    open_volume(directory).replace(COMPLETE_MARKER, complete.model_dump_json().encode() + b"\n")
    return complete


def read_complete(directory: Path | str) -> Complete | None:
    """The marker, of whichever identity. A damaged one counts as none: the run resumes at its last commit and writes it again.

    Raises :class:`StorageError` where the volume cannot be read.
    """
    data = open_volume(directory).read(COMPLETE_MARKER)
    try:
        return None if data is None else Complete.model_validate_json(data)
    except ValidationError:
        return None
