"""Committing, listing, choosing and sharing the work of verifying."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    CommitRecord,
    FileDigest,
    StorageError,
    UnknownSchemaError,
    storage,
)
from trainwright_trainer.checkpoint.data_file import chunk_matches

Save = Callable[..., CommitRecord]


def test_nothing_was_ever_committed(store: CheckpointStore) -> None:
    assert store.records() == ()
    assert store.latest_good() is None
    assert not store.directory.exists()


def test_a_draft_is_no_checkpoint(store: CheckpointStore) -> None:
    store.begin(5, "a").write("f", [b"x"])
    assert store.latest_good() is None


def test_newest_first(store: CheckpointStore, save: Save) -> None:
    saved = [save(9, "a"), save(10, "a"), save(100, "b"), save(100, "a"), save(99, "c")]
    by_step = [saved[3], saved[2], saved[4], saved[1], saved[0]]
    assert list(store.records()) == by_step
    assert store.latest_good() == saved[3]


def test_two_attempts_write_the_same_step(store: CheckpointStore) -> None:
    old, new = store.begin(30, "old"), store.begin(30, "new")
    digests = {draft.name.attempt: draft.write("model", [draft.name.attempt.encode()]) for draft in (old, new)}
    for attempt, digest in digests.items():
        store.commit(CommitRecord(identity="i", attempt=attempt, step=30, samples_consumed=1, world_size=1, files=(digest,)))
    found = {record.attempt: record for record in store.records()}
    assert store.path(found["old"], "model").read_bytes() == b"old"
    assert store.path(found["new"], "model").read_bytes() == b"new"
    assert [store.verify(record) for record in found.values()] == [[], []]


def test_a_step_is_committed_once_by_an_attempt(store: CheckpointStore, save: Save) -> None:
    record = save(3)
    with pytest.raises(ValueError, match=r"step-3\.first is committed already"):
        store.begin(3, "first")
    with pytest.raises(ValueError, match="committed already"):
        store.commit(record)
    assert store.latest_good() == record


def test_a_commit_whose_answer_fails_is_there(store: CheckpointStore, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is linked, and the sync of its folder fails once: the volume is asked again, and finds its own."""
    sync, failed = storage.sync_directory, list[Path]()

    def fail_once(directory: Path) -> None:
        if directory.name == "commits" and not failed:
            failed.append(directory)
            raise StorageError("sync", directory, "Input/output error", "look at the volume")
        sync(directory)

    monkeypatch.setattr(storage, "sync_directory", fail_once)
    record = save(3)
    assert failed
    assert store.latest_good() == record


def test_data_that_changed_before_the_commit(store: CheckpointStore) -> None:
    draft = store.begin(3, "a")
    record = CommitRecord(
        identity="i", attempt="a", step=3, samples_consumed=1, world_size=1, files=(draft.write("model", [b"abc"]),)
    )
    draft.path("model").write_bytes(b"ab")
    with pytest.raises(StorageError, match=r"2 bytes instead of 3; .*one writer"):
        store.commit(record)
    draft.discard()
    with pytest.raises(StorageError, match="No such file"):
        store.commit(record)
    assert store.records() == ()


def test_foreign_files_are_left_alone(store: CheckpointStore, save: Save) -> None:
    record = save(3)
    foreign = [store.directory / name for name in ("commits/notes.json", "step-x", "commits/step-4.json")]
    for path in foreign:
        path.write_text("mine")
    assert store.records() == (record,)
    store.retain(2, "later")
    assert [path.read_text() for path in foreign] == ["mine"] * 3


@pytest.mark.parametrize("world_size", [1, 2, 3, 7, 40])
def test_ranks_share_the_verifying(store: CheckpointStore, save: Save, world_size: int) -> None:
    record = save(3)
    for name, at in (("model.safetensors", 10_239), ("optimizer/rank-0.safetensors", 0)):
        path = store.path(record, name)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
    per_rank = [store.verify(record, rank=rank, world_size=world_size) for rank in range(world_size)]
    found = [(problem.file, problem.kind) for problems in per_rank for problem in problems]
    assert sorted(found) == [("model.safetensors", "digest"), ("optimizer/rank-0.safetensors", "digest")]
    assert store.verify(record, ["empty"]) == []
    assert [problem.file for problem in store.verify(record, ["model.safetensors"])] == ["model.safetensors"]


def test_shares_are_even(store: CheckpointStore, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    record = save(3, files={f"layer-{number}": bytes(number * 100) for number in range(30)})
    reads: list[tuple[str, int]] = []

    def counting(pieces: Iterable[memoryview], digest: FileDigest, index: int) -> bool:
        reads.append((digest.name, index))
        return chunk_matches(pieces, digest, index)

    monkeypatch.setattr("trainwright_trainer.checkpoint.retention.chunk_matches", counting)
    shares: list[int] = []
    for rank in range(4):
        assert store.verify(record, rank=rank, world_size=4) == []
        shares.append(len(reads) - sum(shares))
    assert max(shares) - min(shares) <= 1
    assert sorted(reads) == sorted((file.name, index) for file in record.files for index in range(len(file.chunks)))


def test_questions_that_make_no_sense(store: CheckpointStore, save: Save) -> None:
    record = save(3)
    with pytest.raises(ValueError, match="not in the commit record"):
        store.verify(record, ["other"])
    with pytest.raises(ValueError, match="rank 2 is not one of 2"):
        store.verify(record, rank=2, world_size=2)
    with pytest.raises(KeyError, match="other"):
        store.path(record, "other")


def test_a_commit_of_a_newer_trainer_stops_an_older_one(store: CheckpointStore, save: Save) -> None:
    save(3)
    body = {"schema_version": 2, "step": 4}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    path = store.directory / "commits" / "step-4.newer.json"
    path.write_text(json.dumps({"record": body, "sha256": digest}))
    for use in (store.records, store.latest_good, lambda: store.retain(2, "a")):
        with pytest.raises(UnknownSchemaError, match=r"step-4\.newer has schema version 2"):
            use()
    assert path.exists()
