"""Clean-up keeps what a resume may need, and says what it removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.checkpoint.retention import FENCES_KEPT

Save = Callable[..., CommitRecord]


def steps(store: CheckpointStore) -> list[int]:
    return [record.step for record in store.records()]


def directories(store: CheckpointStore) -> list[str]:
    return sorted(entry for entry in os.listdir(store.directory) if entry.startswith("step-"))


def names(keys: tuple[str, ...]) -> set[str]:
    return {key.rsplit("/", 1)[-1] for key in keys}


@contextmanager
def leased(store: CheckpointStore, attempt: str) -> Iterator[None]:
    lease = store.acquire_lease("digits-1", attempt)
    yield
    lease.release()


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


def test_what_other_attempts_left_goes_once_it_is_fenced(store: CheckpointStore, save: Save) -> None:
    store.begin(5, "old").write("f", [b"x"])
    store.begin(30, "old").write("f", [b"x"])
    save(10, "old")
    commits = store.directory / "commits"
    (commits / ".step-7.old.json.0a1b2c3d.tmp").write_bytes(b"cut")
    assert store.retain(2, "old").removed == ()
    with leased(store, "new"):
        save(20, "new")
        store.begin(15, "new").write("f", [b"x"])
        store.begin(40, "newer").write("f", [b"x"])
        (commits / ".step-25.new.json.0a1b2c3d.tmp").write_bytes(b"being written")
        done = store.retain(2, "new")
    assert names(done.removed) == {"step-5.old", "step-30.old", ".step-7.old.json.0a1b2c3d.tmp"}
    assert directories(store) == ["step-10.old", "step-15.new", "step-20.new", "step-40.newer"]
    assert (commits / ".step-25.new.json.0a1b2c3d.tmp").exists()


def test_commits_of_a_newer_attempt_stay(store: CheckpointStore, save: Save) -> None:
    """An attempt that does not know yet that it was displaced, between the look at its lease and the removal."""
    save(1, "oldest")
    with leased(store, "old"):
        for step in (2, 3, 4):
            save(step, "old")
        elsewhere = CheckpointStore(store.directory)
        for step in (2, 3, 4):
            draft = elsewhere.begin(step, "new")
            files = (draft.write("f", [b"x"]),)
            elsewhere.commit(CommitRecord(identity="i", attempt="new", step=step, samples_consumed=1, world_size=1, files=files))
        store.retain(2, "old")
    assert {(record.step, record.attempt) for record in store.records()} == {
        (4, "old"), (3, "old"), (4, "new"), (3, "new"), (2, "new"),
    }


def test_fences_of_long_ago_go(store: CheckpointStore, save: Save) -> None:
    for number in range(FENCES_KEPT + 3):
        with leased(store, f"a{number}"):
            store.begin(1, f"a{number}").write("f", [b"x"])
    with leased(store, "last"):
        save(2, "last")
        store.retain(2, "last")
    assert sorted(fence.term for fence in store.scan().fences) == list(range(5, FENCES_KEPT + 5))
    assert directories(store) == ["step-2.last"]


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


def test_an_attempt_that_began_before_the_newest_commit(store: CheckpointStore, save: Save) -> None:
    """It comes to the step of that commit once more: the newer of the two counts, and the older goes like any other."""
    for step in (20, 30, 40):
        save(step, "old")
    with leased(store, "new"):
        save(32, "new")
        store.retain(2, "new")
        assert [(record.step, record.attempt) for record in store.records()] == [(40, "old"), (32, "new"), (30, "old")]
        save(36, "new")
        store.retain(2, "new")
        assert [(record.step, record.attempt) for record in store.records()] == [(40, "old"), (36, "new"), (32, "new")]
        again = save(40, "new")
        store.retain(2, "new")
        assert [(record.step, record.attempt) for record in store.records()] == [(40, "new"), (40, "old"), (36, "new")]
        assert store.latest_good() == again
        save(44, "new")
        store.retain(2, "new")
    assert [(record.step, record.attempt) for record in store.records()] == [(44, "new"), (40, "new")]


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
    assert {Path(failure.path).name for failure in done.failures} == {"step-1.first", "step-2.first"}
    assert steps(store) == [4, 3]
    with leased(store, "second"):
        assert names(store.retain(2, "second").removed) == {"step-1.first", "step-2.first"}
