"""Which checkpoints count, and which stay: verification, quarantine and retention.

Verification: does the data on the volume still match its commit record? What is gone, cut or changed is a :class:`Corruption` of
that checkpoint. A volume that cannot be read at all (EIO, EACCES, ESTALE) is a ``StorageError`` instead: quarantining every
checkpoint because a mount hiccups would throw a run back to its start. A checkpoint in quarantine is renamed, kept for
inspection, and never loaded again.

Retention: a record goes before its data, so a crash in between leaves a draft and never a record without data. What an attempt
removes it knew when it took its lease, or wrote itself, or fenced: so one that was displaced without knowing it cannot touch what
the newer attempt wrote since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from trainwright_trainer.checkpoint.data_file import FileDigest, chunk_matches, chunk_span
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.storage import DataGoneError, StorageError
from trainwright_trainer.checkpoint.volume import (
    CheckpointName,
    Listing,
    Volume,
    bad_data_key,
    bad_record_key,
    data_key,
    record_key,
)
from trainwright_trainer.contract.base import Contract


class Corruption(Contract):
    """What is wrong with one file of a checkpoint, or with its record (``file`` is None)."""

    file: str | None
    kind: Literal["missing", "size", "digest", "record"]
    message: str


def verify_data(
    volume: Volume, record: CommitRecord, files: Collection[str] | None, rank: int, world_size: int
) -> list[Corruption]:
    """Problems of the named files, at most one a file, in the record's order.

    Chunks are numbered through all these files; this rank reads the chunks ``k`` with ``k % world_size == rank``, and asks for
    the size of the files whose first chunk is among them. So a file is opened by those alone who read it: if every rank asked for
    every size, 1,024 ranks would open 3 million files. Raises ``ValueError`` for a file that is not in the record.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of {world_size}")
    if unknown := sorted(set(files or ()) - {file.name for file in record.files}):
        raise ValueError(f"not in the commit record of {record.name}: {', '.join(unknown)}")
    chosen = [digest for digest in record.files if files is None or digest.name in files]
    first_chunks = accumulate((len(digest.chunks) for digest in chosen), initial=0)
    numbered = list(zip(chosen, first_chunks, strict=False))  # the last number is that of a file that is not there
    sized = [digest for digest, first in numbered if first % world_size == rank]
    wrong = {problem.file: problem for problem in _wrong_sizes(volume, record, sized)}
    problems: list[Corruption] = []
    for digest, first in numbered:
        mine = range((rank - first) % world_size, len(digest.chunks), world_size)
        problem = wrong.get(digest.name) or _wrong_content(volume, data_key(record.name), digest, mine)
        if problem:
            problems.append(problem)
    return problems


def sizes_differ(volume: Volume, record: CommitRecord) -> list[Corruption]:
    """The cheap half of :func:`verify_data`: presence and size, no content."""
    return _wrong_sizes(volume, record, record.files)


def _wrong_sizes(volume: Volume, record: CommitRecord, digests: Collection[FileDigest]) -> list[Corruption]:
    tree = data_key(record.name)
    sizes = volume.sizes(tree, [digest.name for digest in digests])
    problems: list[Corruption] = []
    for digest in digests:
        size = sizes[digest.name]
        if isinstance(size, DataGoneError):
            problems.append(_missing(digest, size))
        elif size != digest.size:
            message = f"{volume.location(f'{tree}/{digest.name}')}: {size} bytes instead of {digest.size}"
            problems.append(Corruption(file=digest.name, kind="size", message=message))
    return problems


def _wrong_content(volume: Volume, tree: str, digest: FileDigest, chunks: range) -> Corruption | None:
    try:
        bad = [at for at in chunks if not chunk_matches(volume.pieces(tree, digest.name, *chunk_span(digest, at)), digest, at)]
    except DataGoneError as gone:  # since its size was asked for
        return _missing(digest, gone)
    if not bad:
        return None
    where = f"{len(bad)} of {len(chunks)} chunks, the first at byte {bad[0] * digest.chunk_bytes}"
    message = f"{volume.location(f'{tree}/{digest.name}')}: content changed in {where}"
    return Corruption(file=digest.name, kind="digest", message=message)


def _missing(digest: FileDigest, gone: DataGoneError) -> Corruption:
    return Corruption(file=digest.name, kind="missing", message=str(gone))


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A checkpoint that was set aside, and why."""

    name: CheckpointName
    problems: tuple[Corruption, ...]
    directory: str
    """Where its data is now, if it had any: a path, or an address on an object store."""

    def __str__(self) -> str:
        return f"checkpoint {self.name} is damaged and was set aside: {'; '.join(p.message for p in self.problems)}"


OnQuarantine = Callable[[Quarantined], None]


def quarantine(volume: Volume, name: CheckpointName, problems: tuple[Corruption, ...]) -> Quarantined:
    """Rename record and data to ``.bad``, the record first: from then on nobody chooses it. Safe to repeat after a crash."""
    volume.move(record_key(name), bad_record_key(name))
    tree = volume.set_aside(data_key(name), bad_data_key(name))
    return Quarantined(name, problems, volume.location(tree))


def finish_quarantines(volume: Volume) -> None:
    """Rename the data of checkpoints whose quarantine was cut off between record and data."""
    seen = Listing.of(volume)
    for name in set(seen.bad_records) & set(seen.data) - set(seen.records):
        volume.set_aside(data_key(name), bad_data_key(name))


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
    inherited: frozenset[CheckpointName] | None, spared: Collection[CheckpointName] = (),
) -> Retention:
    """Remove what is not needed any more: old commits, fenced drafts, old quarantined checkpoints.

    Args:
        volume: where.
        records: what is committed, newest first, just read back.
        fences: drafts that can never be committed.
        keep: commits to keep, at least 2.
        attempt: the attempt that runs now. Its drafts stay, and so do its two newest commits at whatever step, and the one
            before its newest, no matter who wrote that.
        inherited: commits that were there when the attempt took its lease; None without a lease, for all that are there.
        spared: commits that stay in any case.
    """
    if keep < MIN_KEPT:
        raise ValueError(f"keep is {keep} and must be at least {MIN_KEPT}")
    finish_quarantines(volume)
    if not records or sizes_differ(volume, records[0]):
        return Retention()
    removed: list[str] = []
    failures: list[StorageError] = []
    for remove, key in _obsolete(volume, records, fences, keep, attempt, inherited, spared):
        try:
            if remove(key):
                removed.append(key)
        except StorageError as error:
            failures.append(error)
    return Retention(tuple(removed), tuple(failures))


Removal = tuple[Callable[[str], bool], str]


def _obsolete(
    volume: Volume, records: tuple[CommitRecord, ...], fences: tuple[Fence, ...], keep: int, attempt: str,
    inherited: frozenset[CheckpointName] | None, spared: Collection[CheckpointName],
) -> Iterator[Removal]:
    kept = _kept(records, keep, attempt) | set(spared)
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
    # A run that began again has lower steps than the ones before it in the same directory: its own come first.
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
