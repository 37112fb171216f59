"""History of a run on its volume: the attempt ledger, the COMPLETE marker, the newest commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, TypeVar

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    LeaseLostError,
    StorageError,
    UnknownSchemaError,
    read_complete,
    write_complete,
)
from trainwright_trainer.checkpoint.keeper import Keeper
from trainwright_trainer.checkpoint.ledger import Ledger, Past
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import NoCheckpointError, PodError
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted, AttemptTimes
from trainwright_trainer.contract.spec import RunSpec, Script
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.messages import Given, Wanted
from trainwright_trainer.supervisor.event_loop import in_daemon_thread

VOLUME_SECONDS = 60.0
"""For one access to the volume; a network file system that hangs would hold the pod forever."""
VOLUME_RETRY_SECONDS = 3.0
"""Between two tries, where pods wait for a volume."""
SCRIPT_PROGRESS = timedelta(minutes=30)
"""A script's attempt that lasted so long counts as progress: its commits are its own, and a loop of failures is faster, also
with a Job's back-off between attempts."""
Value = TypeVar("Value")
NOTE_SECONDS, NOTE_SHARE = 60.0, 0.1
"""After so long, and then whenever an attempt has become longer by this share: a month makes some 60 lines."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What an attempt starts from."""

    committed_step: int | None
    past: Past = field(default_factory=Past)
    resume_before: int | None = None
    """Set for the last attempt that the run may make without progress: the step of the commit that the others began with."""


class History:
    """Every call raises :class:`PodError` with STORAGE where the volume cannot be used.

    Without a state directory nothing is kept, and nothing is ever complete.
    """

    keeps: ClassVar[bool] = True
    """Whether it writes."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._directory = spec.state_directory
        self._times: AttemptTimes | None = None
        self._keeper: Keeper | None = None
        """Of a script's checkpoints, once an attempt has begun."""

    async def is_complete(self) -> bool:
        """Whether this very identity reached its target."""
        directory = self._directory
        if directory is None:
            return False
        complete = await _on_volume(lambda: read_complete(directory))
        return complete is not None and complete.identity == self._spec.identity

    async def has_begun(self) -> bool:
        """Whether this very identity had an attempt."""
        directory, identity = self._directory, self._spec.identity
        if directory is None:
            return False
        return await _on_volume(lambda: any(event.identity == identity for event in Ledger(directory).events()))

    async def begin(self, attempt: str) -> Beginning:
        """Note the start of an attempt (node 0)."""
        directory, identity = self._directory, self._spec.identity
        long_enough = timedelta.max if self._knows_commits else SCRIPT_PROGRESS
        if directory is None:
            return Beginning(None, Past(attempts=1))

        def note() -> Beginning:
            committed = self._newest_commit(directory)
            ledger = Ledger(directory)
            ledger.append(AttemptStarted(identity=identity, attempt=attempt, committed_step=committed))
            attempts = ledger.attempts_without_progress(identity, long_enough)
            before = committed if attempts == self._spec.lifecycle.attempts_without_progress > 1 else None
            past = ledger.past(identity).model_copy(update={"attempts_without_progress": attempts})
            return Beginning(committed, past, before)

        beginning = await _on_volume(note)
        self._keeper = self._new_keeper(attempt, beginning.resume_before)
        return beginning

    @property
    def _knows_commits(self) -> bool:
        """Whether its checkpoints are in our store; those of other scripts are their own."""
        return not isinstance(self._spec.work, Script) or self._spec.work.checkpoints is not None

    def spent(self, attempt: str, seconds: Mapping[str, float], step: int | None) -> None:
        """How an attempt has spent its time until now: for :meth:`note_times`, and for the attempt's end (node 0)."""
        rounded = {phase: round(value, 3) for phase, value in seconds.items()}
        self._times = AttemptTimes(identity=self._spec.identity, attempt=attempt, seconds=rounded, step=step)

    async def note_times(self) -> None:
        """Write down what was :meth:`spent`, for an attempt that does not come to its end (node 0)."""
        directory, times = self._directory, self._times
        if directory is not None and times is not None:
            await _on_volume(lambda: Ledger(directory).append(times))

    async def give(self, wanted: Wanted) -> Given:
        """Do what the ranks of a script wait for, on its checkpoints (node 0). It takes as long as the volume does.

        Raises :class:`PodError` where the run cannot go on: nothing verifies, or a newer attempt took over.
        """
        if self._keeper is None:
            return Given(request=wanted.request, error=self._why_not())
        keeper = self._keeper
        acts = {"newest": keeper.newest, "draft": lambda: keeper.draft(wanted.step), "commit": lambda: keeper.commit(wanted.step)}
        try:
            kept = await in_daemon_thread(acts[wanted.what])
        except (NoCheckpointError, LeaseLostError, UnknownSchemaError) as error:
            raise PodError(error.exit_code, type(error).__name__, str(error)) from None
        except (StorageError, ValueError) as error:
            return Given(request=wanted.request, error=str(error))
        return Given(request=wanted.request) if kept is None else Given(request=wanted.request, step=kept.step, path=kept.path)

    def _why_not(self) -> str:
        if not isinstance(self._spec.work, Script) or self._spec.work.checkpoints is None:
            return "the run does not say that its script saves by trainwright_trainer.run; write checkpoints: {by: script}"
        return "the run has no state directory; name a claim in mounts for checkpoints.mount"

    def _new_keeper(self, attempt: str, resume_before: int | None) -> Keeper | None:
        spec, work = self._spec, self._spec.work
        if not isinstance(work, Script) or work.checkpoints is None or work.state_directory is None:
            return None
        return Keeper(
            work.state_directory, spec.identity, attempt, spec.world.size,
            keep=work.checkpoints.keep, resume=work.checkpoints.resume,
            patience_seconds=spec.lifecycle.grace_seconds, resume_before=resume_before,
            on_quarantine=lambda found: get_log().warning("checkpoint_quarantined", reason=str(found), path=found.directory),
        )

    async def end(self, attempt: str, code: ExitCode, committed_step: int | None) -> None:
        """Note the end of an attempt (node 0), whose ranks are all gone: the next one need not wait for its lease."""
        directory = self._directory
        if directory is None:
            return
        ended = AttemptEnded(identity=self._spec.identity, attempt=attempt, code=int(code), committed_step=committed_step)

        def note() -> None:
            try:  # before the ledger: a lease that this pod goes on holding would keep its next attempt waiting
                if self._keeper is not None:
                    self._keeper.close()
                elif self._knows_commits:
                    CheckpointStore(directory).release_lease_of(attempt)
            finally:
                for event in (self._times, ended):
                    if event is not None:
                        Ledger(directory).append(event)

        await _on_volume(note)

    async def complete(self, attempt: str, step: int) -> None:
        """Write the marker for a script whose pods are all done (node 0). The trainer's own rank 0 writes it for other work."""
        directory = self._directory
        if directory is not None and isinstance(self._spec.work, Script):
            await _on_volume(lambda: write_complete(directory, self._spec.identity, step, attempt))

    def _newest_commit(self, directory: str) -> int | None:
        work = self._spec.work
        if work.checkpoints is None:
            return None
        records = CheckpointStore(directory).records()
        if work.checkpoints.resume == "never":
            records = tuple(record for record in records if record.identity == self._spec.identity)
        return records[0].step if records else None


class HistoryOfRound(History):
    """The history of a run for one of several pods that are done at different times: that one is done completes nothing."""

    async def complete(self, attempt: str, step: int) -> None:
        pass


class ReadOnlyHistory(History):
    """The history of a run for a pod that does not keep it: reads, and writes nothing."""

    keeps = False

    async def begin(self, attempt: str) -> Beginning:
        directory = self._directory
        return Beginning(None if directory is None else await _on_volume(lambda: self._newest_commit(directory)))

    async def note_times(self) -> None:
        pass

    async def end(self, attempt: str, code: ExitCode, committed_step: int | None) -> None:
        pass

    async def complete(self, attempt: str, step: int) -> None:
        pass


async def _on_volume(look: Callable[[], Value]) -> Value:
    try:
        return await asyncio.wait_for(in_daemon_thread(look), VOLUME_SECONDS)
    except (StorageError, UnknownSchemaError) as error:
        raise PodError(error.exit_code, type(error).__name__, str(error)) from None
    except TimeoutError:
        message = f"the checkpoint volume did not answer within {VOLUME_SECONDS:g} s; look at the storage behind the claim"
        raise PodError(ExitCode.STORAGE, "StorageHangs", message) from None


async def wait_for_volume(
    act: Callable[[], Awaitable[Value]], seconds: float, wanted: Callable[[], bool] = lambda: True
) -> Value:
    """What ``act`` gives, tried again for so many seconds while the volume cannot be used, and as long as it is still ``wanted``.

    Raises :class:`PodError` after that, and at once where another try would find the same.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        try:
            return await act()
        except PodError as error:
            left = deadline - loop.time()
            if error.exit_code is not ExitCode.STORAGE or left <= 0:
                raise
            get_log().warning("volume_not_usable", reason=str(error))
            await asyncio.sleep(min(VOLUME_RETRY_SECONDS, left))
            if not wanted():
                raise


async def keep_times(history: History) -> None:
    """Until cancelled. A volume that refuses is only logged: the next save will say so too, and end the run if it must."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        await asyncio.sleep(max(NOTE_SECONDS, NOTE_SHARE * (loop.time() - began)))
        try:
            await history.note_times()
        except PodError as error:
            get_log().warning("ledger_not_written", reason=str(error))
