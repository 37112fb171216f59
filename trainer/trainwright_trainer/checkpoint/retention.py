"""Retention: which checkpoints stay, and the removal of the others.

A record goes before its data, so a crash in between leaves a draft and never a record without data. What an attempt removes it
knew when it took its lease, or wrote itself, or fenced: so one that was displaced without knowing it cannot touch what the newer
attempt wrote since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainwright_trainer.checkpoint.layout import CheckpointName, Listing, bad_data_key, bad_record_key, data_key, record_key
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.verification import finish_quarantines, sizes_differ
from trainwright_trainer.checkpoint.volume import Volume

MIN_KEPT = 2
"""The newest may turn out damaged, so the one before it always stays."""
QUARANTINED_KEPT = 2
FENCES_KEPT = 32
"""The newest terms' fences stay: an attempt that was paused for so many takeovers is not coming back."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A draft that will never be committed, and the lease that said so."""

    name: CheckpointName
    term: int


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean-up did. A failure to remove is reported, not raised: a run need not end for it."""

    removed: tuple[str, ...] = ()
    """Keys, relative to the lineage's directory."""
    failures: tuple[StorageError, ...] = ()


def retain(
    volume: Volume, records: tuple[CommitRecord, ...], fences: tuple[Fence, ...], keep: int, attempt: str,
    inherited: frozenset[CheckpointName] | None,
) -> Retention:
    """Remove what is not needed any more: old commits, fenced drafts, old quarantined checkpoints.

    Args:
        volume: where.
        records: what is committed, newest first, just read back.
        fences: drafts that can never be committed.
        keep: commits to keep, at least 2.
        attempt: the attempt that runs now. Its drafts stay, and so do its two newest commits at whatever step, and the one
            before its newest, whoever wrote that.
        inherited: commits that were there when the attempt took its lease; None without a lease, for all that are there.
    """
    if keep < MIN_KEPT:
        raise ValueError(f"keep is {keep} and must be at least {MIN_KEPT}")
    finish_quarantines(volume)
    if not records or sizes_differ(volume, records[0]):
        return Retention()
    removed: list[str] = []
    failures: list[StorageError] = []
    for remove, key in _obsolete(volume, records, fences, keep, attempt, inherited):
        try:
            if remove(key):
                removed.append(key)
        except StorageError as error:
            failures.append(error)
    return Retention(tuple(removed), tuple(failures))


Removal = tuple[Callable[[str], bool], str]


def _obsolete(
    volume: Volume, records: tuple[CommitRecord, ...], fences: tuple[Fence, ...], keep: int, attempt: str,
    inherited: frozenset[CheckpointName] | None,
) -> Iterator[Removal]:
    kept = _kept(records, keep, attempt)
    for name in (record.name for record in records):
        if name not in kept and (inherited is None or name in inherited or name.attempt == attempt):
            yield volume.remove, record_key(name)
            yield volume.remove_tree, data_key(name)
    seen, fenced = Listing.of(volume), {fence.name for fence in fences}
    for name in fenced.intersection(seen.data):
        yield volume.remove_tree, data_key(name)
    for name, key in seen.temporary:
        if name in seen.records:  # or a fence is
            yield volume.remove, key
    for fence in sorted(fences, key=lambda fence: fence.term, reverse=True)[FENCES_KEPT:]:
        yield volume.remove, record_key(fence.name)
    yield from _old_quarantined(volume, seen, attempt)


def _kept(records: tuple[CommitRecord, ...], keep: int, attempt: str) -> set[CheckpointName]:
    own = [record.name for record in records if record.attempt == attempt]
    identity = next((record.identity for record in records if record.attempt == attempt), None)
    # A run that began anew has lower steps than the ones before it in the same directory: its own come first.
    ranked = sorted(records, key=lambda record: record.identity != identity)
    # An attempt that began before the newest commit works below it: what it would fall back to stays as well.
    below = [record.name for record in records if own and record.step <= own[0].step]
    return {record.name for record in ranked[:keep]} | set(own[:MIN_KEPT]) | set(below[:MIN_KEPT])


def _old_quarantined(volume: Volume, seen: Listing, attempt: str) -> Iterator[Removal]:
    for name in sorted({*seen.bad_records, *seen.bad_data}, reverse=True)[QUARANTINED_KEPT:]:
        yield volume.remove, bad_record_key(name)
        yield volume.remove_tree, bad_data_key(name)
        if name not in seen.records and name.attempt != attempt:
            yield volume.remove_tree, data_key(name)  # where a volume cannot rename a tree
