"""Each kind of damage is found, set aside and reported, and the one before is chosen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, Quarantined, StorageError

Save = Callable[..., CommitRecord]
MODEL = "model.safetensors"


def flip_a_bit(store: CheckpointStore, record: CommitRecord) -> None:
    data = bytearray(store.path(record, MODEL).read_bytes())
    data[5000] ^= 0b100
    store.path(record, MODEL).write_bytes(data)


def zero_a_page(store: CheckpointStore, record: CommitRecord) -> None:
    with open(store.path(record, MODEL), "r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))


def swap_two_chunks(store: CheckpointStore, record: CommitRecord) -> None:
    data = store.path(record, MODEL).read_bytes()
    store.path(record, MODEL).write_bytes(data[1000:2000] + data[:1000] + data[2000:])


def truncate(store: CheckpointStore, record: CommitRecord) -> None:
    with open(store.path(record, MODEL), "r+b") as file:
        file.truncate(9000)


def append(store: CheckpointStore, record: CommitRecord) -> None:
    with open(store.path(record, "empty"), "ab") as file:
        file.write(b"x")


def remove(store: CheckpointStore, record: CommitRecord) -> None:
    store.path(record, "empty").unlink()


def remove_all_data(store: CheckpointStore, record: CommitRecord) -> None:
    shutil.rmtree(store.path(record, MODEL).parent)


def link_elsewhere(store: CheckpointStore, record: CommitRecord) -> None:
    path = store.path(record, MODEL)
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def directory_in_the_way(store: CheckpointStore, record: CommitRecord) -> None:
    store.path(record, MODEL).unlink()
    store.path(record, MODEL).mkdir()


def record_path(store: CheckpointStore, record: CommitRecord) -> Path:
    return store.directory / "commits" / f"{record.name}.json"


def cut_record(store: CheckpointStore, record: CommitRecord) -> None:
    path = record_path(store, record)
    path.write_bytes(path.read_bytes()[:100])


def empty_record(store: CheckpointStore, record: CommitRecord) -> None:
    record_path(store, record).write_bytes(b"")


def edited_record(store: CheckpointStore, record: CommitRecord) -> None:
    path = record_path(store, record)
    path.write_bytes(path.read_bytes().replace(b'"samples_consumed":640', b'"samples_consumed":641'))


DAMAGES = {
    flip_a_bit: "digest", zero_a_page: "digest", swap_two_chunks: "digest", truncate: "size", append: "size", remove: "missing",
    remove_all_data: "missing", link_elsewhere: "missing", directory_in_the_way: "missing", cut_record: "record",
    empty_record: "record", edited_record: "record",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_falls_back_to_the_last_good(store: CheckpointStore, save: Save, damage: Callable[..., None]) -> None:
    good, newest = save(10), save(20)
    damage(store, newest)
    heard: list[Quarantined] = []
    assert store.latest_good(heard.append) == good
    assert [(q.name, {p.kind for p in q.problems}) for q in heard] == [(newest.name, {DAMAGES[damage]})]
    assert "step-20.first is damaged and was set aside" in str(heard[0])
    assert (store.directory / "commits" / "step-20.first.json.bad").exists()
    assert Path(heard[0].directory).exists() == (damage is not remove_all_data)
    assert not (store.directory / "step-20.first").exists()
    assert store.latest_good(heard.append) == good
    assert len(heard) == 1


def test_nothing_is_good_any_more(store: CheckpointStore, save: Save) -> None:
    for step in (10, 20, 30):
        flip_a_bit(store, save(step))
    heard: list[Quarantined] = []
    assert store.latest_good(heard.append) is None
    assert [quarantined.name.step for quarantined in heard] == [30, 20, 10]


def test_a_step_is_written_again_after_its_quarantine(store: CheckpointStore, save: Save) -> None:
    save(10)
    flip_a_bit(store, save(20, "first"))
    store.latest_good()
    again = save(20, "second")
    assert store.latest_good() == again


def test_ranks_agree_without_the_store_choosing(store: CheckpointStore, save: Save) -> None:
    good, newest = save(10), save(20)
    flip_a_bit(store, newest)
    for candidate in store.quarantine_unreadable():
        problems = [problem for rank in range(3) for problem in store.verify(candidate, rank=rank, world_size=3)]
        if not problems:
            break
        store.quarantine(candidate, problems)
        store.quarantine(candidate, problems)  # a second process that comes late does no harm
    assert candidate == good


def test_a_quarantine_that_was_cut_off_is_finished(store: CheckpointStore, save: Save) -> None:
    for step in (10, 20, 30):
        save(step)
    record_path(store, store.records()[0]).rename(store.directory / "commits" / "step-30.first.json.bad")
    assert store.retain(2, "second").removed == ()
    assert (store.directory / "step-30.first.bad" / MODEL).exists()


def test_an_unreadable_volume_is_no_damage(store: CheckpointStore, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    save(10)
    newest = save(20)

    def fail(path: Path) -> FileIO:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("trainwright_trainer.checkpoint.posix_volume.open_data_file", fail)
        with pytest.raises(StorageError, match=r"cannot read .*Input/output error"):
            store.latest_good()
    assert store.latest_good() == newest
