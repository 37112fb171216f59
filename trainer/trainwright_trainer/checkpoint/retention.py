"""Retention: which checkpoints stay, and the removal of the others.

A record goes before its data, so a crash in between leaves a draft and never a record without data.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.checkpoint.durable import sync_directory
from trainwright_trainer.checkpoint.layout import CheckpointName, Layout
from trainwright_trainer.checkpoint.quarantine import finish_quarantines
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.storage import StorageError, storage_errors
from trainwright_trainer.checkpoint.verification import sizes_differ

MIN_KEPT = 2
"""The newest may turn out damaged, so the one before it always stays."""
QUARANTINED_KEPT = 2


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean-up did. A failure to remove is reported, not raised: a run need not end for it."""

    removed: tuple[Path, ...] = ()
    failures: tuple[StorageError, ...] = ()


def retain(layout: Layout, records: tuple[CommitRecord, ...], keep: int, attempt: str) -> Retention:
    """Remove what is not needed any more: old commits, drafts that other attempts left, old quarantined checkpoints.

    Args:
        layout: where.
        records: what is committed, newest first, just read back.
        keep: commits to keep, at least 2.
        attempt: the attempt that runs now. Its drafts stay, and so do its two newest commits at whatever step. A lineage has
            one writer, so drafts of other attempts at or below the newest committed step are leftovers.
    """
    if keep < MIN_KEPT:
        raise ValueError(f"keep is {keep} and must be at least {MIN_KEPT}")
    finish_quarantines(layout)
    if not records or sizes_differ(layout.data(records[0].name), records[0]):
        return Retention()
    removed: list[Path] = []
    failures: list[StorageError] = []
    for path in _obsolete(layout, records, keep, attempt):
        try:
            if _remove(path):
                removed.append(path)
        except StorageError as error:
            failures.append(error)
    return Retention(tuple(removed), tuple(failures))


def _obsolete(layout: Layout, records: tuple[CommitRecord, ...], keep: int, attempt: str) -> Iterator[Path]:
    own = [record.name for record in records if record.attempt == attempt]
    identity = next((record.identity for record in records if record.attempt == attempt), None)
    # A run that began anew has lower steps than the ones before it in the same directory: its own come first.
    ranked = sorted(records, key=lambda record: record.identity != identity)
    kept = {record.name for record in ranked[:keep]} | set(own[:MIN_KEPT])
    for record in records:
        if record.name not in kept:
            yield layout.record(record.name)
            yield layout.data(record.name)
    # Asked again, and not taken from `records`: a record that does not read back still belongs to its data.
    claimed = {record.name for record in records}.union(layout.committed(), layout.bad_records())
    for name in layout.data_directories():
        if name not in claimed and _left_over(name, records[0], attempt):
            yield layout.data(name)
    for name, path in layout.temporary_records():
        if _left_over(name, records[0], attempt):
            yield path
    yield from _old_quarantined(layout)


def _left_over(name: CheckpointName, newest: CommitRecord, attempt: str) -> bool:
    return name.attempt != attempt and name.step <= newest.step


def _old_quarantined(layout: Layout) -> Iterator[Path]:
    for name in sorted({*layout.bad_records(), *layout.bad_directories()}, reverse=True)[QUARANTINED_KEPT:]:
        yield layout.bad_record(name)
        yield layout.bad_data(name)


def _remove(path: Path) -> bool:
    """Whether there was something to remove."""
    with storage_errors("remove", path):
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            return False
    sync_directory(path.parent)
    return True
