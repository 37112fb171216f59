"""Writer lease: of all attempts that ever start on a lineage, one writes, and it is the newest.

::

    lease/7.json    term 7 of the lineage: which attempt has it. Created once, by the first to come; never replaced
    lease/7.beat    its heartbeat, a number that grows, or "released"

Who holds the highest term holds the lease, for as long as the file of that term is there as its holder wrote it. An attempt
takes over by creating the next term and then removing the file of the one before. It waits for that until the holder released
its lease, or its heartbeat stood still for ``expiry_seconds`` by this machine's own clock (no two machines' clocks are ever
compared), or ``patience_seconds`` are over: then the older attempt is displaced, although it lives.

Waiting is for the sake of the last save; what keeps two writers apart does not depend on any clock. After it took over, and
before it looks for a checkpoint to resume from, the new holder *fences* every draft of another attempt: it creates a fence where
the draft's commit record would be. Records are created and never replaced too, so of record and fence one comes first and
stays. A commit looks for the own term's file after the last byte of data is written. So an attempt that lost its lease either
wrote the first byte before the fencing, and meets its fence; or after it, and misses its term.

What that rests on: creating a file only where there is none, in one operation (link(2), on NFS carried out by the server;
``If-None-Match: *`` on an object store), and seeing what was written before (open(2) asks an NFS server for the state of the
file, close-to-open in nfs(5); S3 is strongly consistent).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, ValidationError

from trainwright_trainer.checkpoint.record import encode_fence
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.volume import Attempt, CheckpointName, Listing, Volume, record_key
from trainwright_trainer.contract.base import MAX_INTEGER, Contract, Count
from trainwright_trainer.contract.exit_codes import ExitCode

_DIRECTORY = "lease"
_RELEASED = b"released"


class LeaseLostError(Exception):
    """A newer attempt writes to this lineage, so this one must stop saving.

    The code is STORAGE, which counts against the restarts: two runs that share a lineage would displace each other forever
    if it cost nothing.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.STORAGE


class Holder(Contract):
    """Who has, or had, a term of the lease."""

    term: Count
    identity: Annotated[str, Field(min_length=1, max_length=253)]
    attempt: Attempt

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.identity}"


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """How long what takes. A heartbeat comes many times in ``expiry_seconds``, since saving keeps a volume busy."""

    beat_seconds: float = 2.0
    expiry_seconds: float = 12.0
    patience_seconds: float = 120.0
    """For a holder that lives. Its grace period is a good choice: until then it may be saving after a SIGTERM."""
    poll_seconds: float = 0.5


OnWait = Callable[[Holder, float], None]
"""Called every poll with the holder and the seconds waited so far. It may raise, to give up."""


class Lease:
    """A term of one attempt; :func:`acquire` gives one. Safe from any thread."""

    def __init__(self, volume: Volume, holder: Holder, timing: LeaseTiming) -> None:
        self.holder = holder
        self._volume, self._timing = volume, timing
        self._lost, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._renew, name="checkpoint-lease", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the heartbeat noticed that the lease is lost; costs nothing, and may be some seconds late."""
        return self._lost.is_set()

    def check(self) -> None:
        """Ask the volume whether this is still the lease. Raises :class:`LeaseLostError` and :class:`StorageError`."""
        if self._ended.is_set() and not self._lost.is_set():
            raise LeaseLostError(f"{self.holder} released its lease on {self._volume.location('')} and saves no more")
        if self._lost.is_set() or not _is_there(self._volume, self.holder):
            self._lost.set()
            raise LeaseLostError(self._why())

    def release(self) -> None:
        """Let the next attempt begin at once. A volume that refuses does no harm: the lease expires."""
        self._ended.set()
        self._thread.join()
        with suppress(StorageError):
            if not self.lost:
                self._volume.overwrite(_beat_key(self.holder.term), _RELEASED)

    def _renew(self) -> None:
        count = 0
        while not self._ended.wait(self._timing.beat_seconds if count else 0):
            count += 1
            with suppress(StorageError):  # a volume that hiccups takes the lease from nobody
                self._volume.overwrite(_beat_key(self.holder.term), str(count).encode())
                if not _is_there(self._volume, self.holder):
                    self._lost.set()
                    return

    def _why(self) -> str:
        newest = None
        with suppress(StorageError):
            newest = _newest(self._volume)
        by = f"{newest} took over" if newest and newest.term > self.holder.term else "the lease is gone"
        return (
            f"{self.holder} lost its lease on {self._volume.location('')}: {by}; this attempt stops saving, what it committed "
            "stays. If two runs are meant to train at the same time, give each a lineage of its own"
        )


def acquire(volume: Volume, identity: str, attempt: str, timing: LeaseTiming, on_wait: OnWait | None = None) -> Lease:
    """Wait for the lease and take it. What other attempts left unfinished is not fenced yet. Raises :class:`StorageError`."""
    while True:
        before = _newest(volume)
        if before and not _waited_for(volume, before, timing, on_wait):
            continue  # somebody else took over from it, and is the one to wait for
        mine = Holder(term=before.term + 1 if before else 1, identity=identity, attempt=attempt)
        if not volume.create(_term_key(mine.term), _encoded(mine)):
            continue  # somebody else waited too, and holds it now
        terms = _terms(volume)
        if terms[-1:] != [mine.term]:
            volume.remove(_term_key(mine.term))  # this machine slept in between, and the term that it created is long over
            continue
        for key in _over(volume, mine.term):
            volume.remove(key)
        return Lease(volume, mine, timing)


def release_for(volume: Volume, attempt: str) -> None:
    """Release the lease of an attempt whose process is known to be dead. Raises :class:`StorageError`."""
    newest = _newest(volume)
    if newest and newest.attempt == attempt:
        volume.overwrite(_beat_key(newest.term), _RELEASED)


def _waited_for(volume: Volume, holder: Holder, timing: LeaseTiming, on_wait: OnWait | None) -> bool:
    """Wait until the holder gave its lease up, stopped, or had its time. False where its term is over before that."""
    started = changed = time.monotonic()
    beat = volume.read(_beat_key(holder.term))
    while beat != _RELEASED:
        now = time.monotonic()
        if now - changed >= timing.expiry_seconds or now - started >= timing.patience_seconds:
            break
        if volume.read(_term_key(holder.term)) is None:
            return False
        if on_wait:
            on_wait(holder, now - started)
        time.sleep(timing.poll_seconds)
        latest = volume.read(_beat_key(holder.term))
        if latest != beat:
            beat, changed = latest, time.monotonic()
    return True


def _newest(volume: Volume) -> Holder | None:
    """Who has the highest term. A file that cannot be read counts as somebody unknown."""
    for term in reversed(_terms(volume)):
        data = volume.read(_term_key(term))
        if data is None:
            continue  # removed since it was listed, so there is a higher one
        try:
            return Holder.model_validate_json(data)
        except ValidationError:
            return Holder(term=term, identity="unknown", attempt="unknown")
    return None


def _terms(volume: Volume) -> list[int]:
    names = (entry.removesuffix(".json") for entry in volume.entries(_DIRECTORY) if entry.endswith(".json"))
    return sorted(int(name) for name in names if _is_term(name))


def _is_there(volume: Volume, holder: Holder) -> bool:
    """Whether the file of a term is still the holder's: one that slept may have created that of a term that was over."""
    return volume.read(_term_key(holder.term)) == _encoded(holder)


def _encoded(holder: Holder) -> bytes:
    return holder.model_dump_json().encode() + b"\n"


def _over(volume: Volume, term: int) -> list[str]:
    """Keys of terms before this one, and what their writers left half written; the terms' own files come first."""
    found = [entry for entry in volume.entries(_DIRECTORY) if _term_of(entry) in range(1, term)]
    return [f"{_DIRECTORY}/{entry}" for entry in sorted(found, key=lambda entry: not entry.endswith(".json"))]


def _term_of(entry: str) -> int:
    first = entry.removeprefix(".").split(".", 1)[0]
    return int(first) if _is_term(first) else 0


def _is_term(name: str) -> bool:
    """Whether it is a number that a lease can have, with one above it for the next. Anything else is somebody else's file."""
    return name.isdecimal() and 0 < int(name) < MAX_INTEGER


def _term_key(term: int) -> str:
    return f"{_DIRECTORY}/{term}.json"


def _beat_key(term: int) -> str:
    return f"{_DIRECTORY}/{term}.beat"


def fence_drafts(volume: Volume, lease: Lease) -> frozenset[CheckpointName]:
    """Fence every draft of another attempt. Gives the names that are committed, or fenced, from before this lease.

    Raises:
        LeaseLostError: A newer attempt was faster, so what was seen may be its own.
        StorageError: The volume refused.
    """
    seen = Listing.of(volume)
    lease.check()  # after the look: whatever a newer attempt began, it began after it took this lease
    drafts = {*seen.data, *(name for name, _ in seen.temporary)}.difference(seen.records, seen.bad_records)
    for name in drafts:
        if name.attempt != lease.holder.attempt:
            volume.create(record_key(name), encode_fence(lease.holder.term))
    return frozenset(Listing.of(volume).records) & {*seen.records, *drafts}
