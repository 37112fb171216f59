"""Clean-up keeps what a resume may need, and says what it removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord

Save = Callable[..., CommitRecord]


def steps(store: CheckpointStore) -> list[int]:
    return [record.step for record in store.records()]


def directories(store: CheckpointStore) -> list[str]:
    return sorted(entry for entry in os.listdir(store.directory) if entry != "commits")


def names(paths: tuple[Path, ...]) -> set[str]:
    return {path.name for path in paths}


def test_keeps_the_newest(store: CheckpointStore, save: Save) -> None:
    for step in (1, 2, 3, 4, 5):
        save(step)
    done = store.retain(3, "first")
    assert steps(store) == [5, 4, 3]
    assert directories(store) == ["step-3.first", "step-4.first", "step-5.first"]
    assert names(done.removed) == {"step-1.first", "step-2.first", "step-1.first.json", "step-2.first.json"}
    assert done.failures == ()


def test_never_fewer_than_two(store: CheckpointStore) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        store.retain(1, "a")


def test_nothing_goes_while_the_newest_is_not_whole(store: CheckpointStore, save: Save) -> None:
    for step in (1, 2, 3):
        newest = save(step)
    store.path(newest, "empty").write_bytes(b"x")
    assert store.retain(2, "first").removed == ()
    assert len(directories(store)) == 3


def test_what_other_attempts_left_goes(store: CheckpointStore, save: Save) -> None:
    store.begin(5, "old").write("f", [b"x"])
    store.begin(30, "old").write("f", [b"x"])
    save(10, "old")
    save(20, "new")
    store.begin(15, "new").write("f", [b"x"])
    commits = store.directory / "commits"
    (commits / ".step-5.old.json.0a1b2c3d.tmp").write_bytes(b"cut")
    (commits / ".step-25.new.json.0a1b2c3d.tmp").write_bytes(b"being written")
    done = store.retain(2, "new")
    assert names(done.removed) == {"step-5.old", ".step-5.old.json.0a1b2c3d.tmp"}
    assert directories(store) == ["step-10.old", "step-15.new", "step-20.new", "step-30.old"]
    assert (commits / ".step-25.new.json.0a1b2c3d.tmp").exists()


def test_the_two_newest_quarantined_stay(store: CheckpointStore, save: Save) -> None:
    for step in (1, 2, 3):
        record = save(step)
        store.quarantine(record, store.verify(record))
    save(4)
    done = store.retain(2, "first")
    assert names(done.removed) == {"step-1.first.bad", "step-1.first.json.bad"}
    assert directories(store) == ["step-2.first.bad", "step-3.first.bad", "step-4.first"]
    assert store.retain(2, "first").removed == ()


def test_an_attempt_that_began_at_the_start_keeps_its_own(store: CheckpointStore, save: Save) -> None:
    for step in (100, 200, 300):
        save(step, "old")
    for step in (10, 20, 30):
        save(step, "new")
    store.retain(2, "new")
    assert steps(store) == [300, 200, 30, 20]


def test_data_of_a_record_that_does_not_read_back_stays(store: CheckpointStore, save: Save) -> None:
    for step in (1, 2, 3):
        save(step, "old")
    (store.directory / "commits" / "step-1.old.json").write_bytes(b"")
    assert store.retain(2, "new").removed == ()
    assert "step-1.old" in directories(store)


def test_what_cannot_be_removed_is_reported(store: CheckpointStore, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3, 4):
        save(step)

    def refuse(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", refuse)
        done = store.retain(2, "first")
    assert {failure.path.name for failure in done.failures} == {"step-1.first", "step-2.first"}
    assert steps(store) == [4, 3]
    assert names(store.retain(2, "second").removed) == {"step-1.first", "step-2.first"}
