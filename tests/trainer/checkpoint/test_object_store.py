"""The same store over an object store: a real S3 server on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem
from tests.trainer.checkpoint.conftest import BUCKET, FILES, Save, s3_environment, saving, serve_s3

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    CommitRecord,
    LeaseLostError,
    LeaseTiming,
    Quarantined,
    StorageError,
    object_volume,
    open_volume,
    read_complete,
    write_complete,
)
from trainwright_trainer.checkpoint.data_file import open_data_file
from trainwright_trainer.checkpoint.volume import Volume

MODEL = "model.safetensors"
IMPATIENT = LeaseTiming(beat_seconds=0.2, expiry_seconds=5.0, patience_seconds=0.3, poll_seconds=0.05)


@pytest.fixture
def s3_save(s3_store: CheckpointStore) -> Save:
    return saving(s3_store)


def key(store: CheckpointStore, rest: str) -> str:
    return f"{store.location()}/{rest}"


def names(s3: S3FileSystem, store: CheckpointStore) -> list[str]:
    root = store.location().removeprefix("s3://")
    return sorted(path.removeprefix(f"{root}/") for path in s3.find(root))


def test_written_is_read_back(s3_store: CheckpointStore, s3_save: Save) -> None:
    assert s3_store.records() == ()
    saved = [s3_save(9), s3_save(10)]
    assert list(s3_store.records()) == saved[::-1]
    assert s3_store.latest_good() == saved[1]
    for name, data in FILES.items():
        path = s3_store.path(saved[1], name)
        assert path.read_bytes() == data
        assert s3_store.path(saved[1], name) == path
    s3_store.close()
    assert not path.exists()
    assert s3_store.location(saved[1].name) == f"{s3_store.location()}/step-10.first"
    with pytest.raises(ValueError, match="is no path"):
        _ = s3_store.directory


def test_an_upload_of_several_parts(s3_store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_volume, "PART_BYTES", 5 * 2**20)
    monkeypatch.setattr(object_volume, "RANGE_BYTES", 2**20)
    store = CheckpointStore(s3_store.location())
    data = os.urandom(12 * 2**20 + 17)
    draft = store.begin(1, "a")
    files = (draft.write("large", [data[: 7 * 2**20], data[7 * 2**20 :]]),)
    record = CommitRecord(identity="i", attempt="a", step=1, samples_consumed=1, world_size=1, files=files)
    store.commit(record)
    assert store.verify(record) == []
    assert store.path(record, "large").read_bytes() == data
    store.close()


def test_what_a_library_wrote_is_uploaded(s3_store: CheckpointStore) -> None:
    draft = s3_store.begin(1, "a")
    draft.path("sub/by-library").write_bytes(FILES[MODEL])
    by_library = draft.digest_existing("sub/by-library")
    assert by_library.chunks == draft.write("written", [FILES[MODEL]]).chunks
    assert not draft.path("sub/by-library").exists()
    with pytest.raises(StorageError, match="missing: No such file"):
        draft.digest_existing("missing")


def test_a_source_that_fails_leaves_no_object(
    s3: S3FileSystem, s3_store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_volume, "PART_BYTES", 5 * 2**20)

    def source() -> Iterator[bytes]:
        yield bytes(6 * 2**20)
        raise RuntimeError("device lost")

    draft = s3_store.begin(1, "a")
    with pytest.raises(RuntimeError, match="device lost"):
        draft.write("f", source())
    draft.write("g", [b"one"])
    with pytest.raises(StorageError, match="in the way"):
        draft.write("g", [b"two"])
    assert names(s3, s3_store) == ["step-1.a/g"]
    assert s3.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads", []) == []


def flip_a_bit(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    data = bytearray(FILES[MODEL])
    data[5000] ^= 0b100
    s3.pipe_file(key(store, f"{record.name}/{MODEL}"), bytes(data))


def zero_a_page(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    data = bytearray(FILES[MODEL])
    data[4096:8192] = bytes(4096)
    s3.pipe_file(key(store, f"{record.name}/{MODEL}"), bytes(data))


def truncate(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    s3.pipe_file(key(store, f"{record.name}/{MODEL}"), FILES[MODEL][:9000])


def remove(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    s3.rm_file(key(store, f"{record.name}/empty"))


def remove_all_data(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    s3.rm(key(store, str(record.name)), recursive=True)


def cut_record(s3: S3FileSystem, store: CheckpointStore, record: CommitRecord) -> None:
    at = key(store, f"commits/{record.name}.json")
    s3.pipe_file(at, s3.cat_file(at)[:100])


DAMAGES = {
    flip_a_bit: "digest", zero_a_page: "digest", truncate: "size", remove: "missing", remove_all_data: "missing",
    cut_record: "record",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_falls_back_to_the_last_good(
    s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save, damage: Callable[..., None]
) -> None:
    good, newest = s3_save(10), s3_save(20)
    damage(s3, s3_store, newest)
    heard: list[Quarantined] = []
    assert s3_store.latest_good(heard.append) == good
    assert [(q.name, {p.kind for p in q.problems}) for q in heard] == [(newest.name, {DAMAGES[damage]})]
    assert heard[0].directory == key(s3_store, "step-20.first")
    assert "commits/step-20.first.json.bad" in names(s3, s3_store)
    assert s3_store.quarantined() == (newest.name,)
    assert s3_store.latest_good(heard.append) == good
    assert len(heard) == 1


def test_a_file_that_changes_between_verifying_and_loading(s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save) -> None:
    record = s3_save(10)
    assert s3_store.verify(record) == []
    flip_a_bit(s3, s3_store, record)
    with pytest.raises(StorageError, match="it changed after it was verified"):
        s3_store.path(record, MODEL)


def test_ranks_share_the_verifying(s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save) -> None:
    record = s3_save(3)
    flip_a_bit(s3, s3_store, record)
    found = [problem for rank in range(3) for problem in s3_store.verify(record, rank=rank, world_size=3)]
    assert [(problem.file, problem.kind) for problem in found] == [(MODEL, "digest")]


@pytest.mark.parametrize("omitted", ["all", "one"])
def test_a_listing_that_omits_what_is_there(
    s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save, monkeypatch: pytest.MonkeyPatch, omitted: str
) -> None:
    """What a store lists may come late; its answer to a name does not."""
    saved = s3_save(9)
    find = S3FileSystem.find
    hidden = {file.name for file in saved.files[: None if omitted == "all" else 1]}

    def late(fs: S3FileSystem, path: str, *arguments: Any, **options: Any) -> Any:
        found = find(fs, path, *arguments, **options)
        if not options.get("detail"):
            return found
        return {name: info for name, info in found.items() if name.rpartition("/")[2] not in hidden}

    monkeypatch.setattr(S3FileSystem, "find", late)
    assert s3_store.verify(saved) == []
    remove(s3, s3_store, saved)
    assert {problem.kind for problem in s3_store.verify(saved)} == {"missing"}


def test_retention(s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save) -> None:
    for step in (1, 2, 3, 4):
        record = s3_save(step)
        if step < 4:
            s3_store.quarantine(record, s3_store.verify(record))
    s3_store.begin(7, "first").write("f", [b"x"])
    lease = s3_store.acquire_lease("digits-1", "second", IMPATIENT)
    for step in (5, 6):
        s3_save(step, "second")
    done = s3_store.retain(2, "second")
    assert set(done.removed) == {
        "commits/step-1.first.json.bad", "step-1.first", "commits/step-4.first.json", "step-4.first", "step-7.first",
    }
    assert done.failures == ()
    assert {name.split("/")[0] for name in names(s3, s3_store)} == {
        "commits", "lease", "step-2.first", "step-3.first", "step-5.second", "step-6.second",
    }
    lease.release()


def test_nothing_goes_while_the_newest_is_not_whole(s3: S3FileSystem, s3_store: CheckpointStore, s3_save: Save) -> None:
    for step in (1, 2, 3):
        newest = s3_save(step)
    remove(s3, s3_store, newest)
    assert s3_store.retain(2, "first").removed == ()


def test_the_newer_attempt_takes_over(s3_store: CheckpointStore, s3_save: Save) -> None:
    old = s3_store.acquire_lease("i", "old", IMPATIENT)
    draft = s3_store.begin(2, "old")
    files = (draft.write("f", [b"x"]),)
    newer = CheckpointStore(s3_store.location())
    lease = newer.acquire_lease("i", "new", IMPATIENT)
    record = CommitRecord(identity="i", attempt="old", step=2, samples_consumed=1, world_size=1, files=files)
    with pytest.raises(LeaseLostError, match="attempt new of i took over"):
        s3_store.commit(record)
    assert [fence.name for fence in newer.scan().fences] == [record.name]
    saved = saving(newer)(2, "new")
    assert newer.records() == (saved,)
    old.release()
    lease.release()


def test_the_marker(s3_store: CheckpointStore) -> None:
    directory = s3_store.location()
    assert read_complete(directory) is None
    written = write_complete(directory, "digits-1", 40, "a")
    assert read_complete(directory) == written


def test_small_files(s3_store: CheckpointStore) -> None:
    small_files(open_volume(s3_store.location()))


def small_files(volume: Volume) -> None:
    assert volume.read("d/a") is None
    assert volume.entries("d") == []
    assert volume.create("d/a", b"one")
    assert not volume.create("d/a", b"two")
    assert volume.create("d/a", b"one"), "its own content: the answer to the first try was lost"
    volume.replace("d/a", b"three")
    volume.append("d/lines", b"1")
    volume.append("d/lines", b"2")
    assert (volume.read("d/a"), volume.read("d/lines")) == (b"three", b"1\n2\n")
    volume.move("d/a", "d/b")
    volume.move("d/a", "d/b")
    assert volume.entries("d") == ["b", "lines"]
    assert (volume.remove("d/b"), volume.remove("d/b")) == (True, False)


def test_small_files_on_a_file_system(tmp_path: Path) -> None:
    small_files(open_volume(tmp_path))


def test_of_two_that_create_at_once_one_does(s3_store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked, and there was nothing: the store itself decides."""
    volume = open_volume(s3_store.location())
    read, looked = type(volume).read, False

    def read_before_the_other(self: object, key: str) -> bytes | None:
        nonlocal looked
        if looked:
            return read(self, key)  # type: ignore[arg-type]
        looked = True
        assert open_volume(s3_store.location()).create(key, b"the other's")
        return None

    monkeypatch.setattr(type(volume), "read", read_before_the_other)
    assert not volume.create("d/a", b"mine")
    assert volume.read("d/a") == b"the other's"


@pytest.fixture
def plain_s3(fresh_clients: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that knows no conditional put."""
    for address in serve_s3("plain"):
        for name, value in s3_environment(address).items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}/run/lineage"


def test_a_store_without_conditional_puts(plain_s3: str) -> None:
    small_files(open_volume(plain_s3))
    store = CheckpointStore(plain_s3)
    lease = store.acquire_lease("i", "a", IMPATIENT)
    record = saving(store)(1, "a")
    assert store.latest_good() == record
    lease.release()


@pytest.mark.usefixtures("s3", "fresh_clients")
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9", "Could not connect .*; check AWS_ENDPOINT_URL"),
        ("AWS_ACCESS_KEY_ID", None, "Unable to locate credentials; give the pod credentials"),
    ],
)
def test_what_the_store_refuses_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str | None, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    store = CheckpointStore(f"s3://{BUCKET}/{tmp_path.name}")
    uses: list[Callable[[], object]] = [
        store.records, lambda: store.begin(1, "a"), lambda: store.acquire_lease("i", "a", IMPATIENT),
    ]
    for use in uses:
        with pytest.raises(StorageError, match=rf"cannot \w+ s3://{BUCKET}/{tmp_path.name}.*: {message}"):
            use()


@pytest.mark.usefixtures("s3")
def test_no_such_bucket(tmp_path: Path) -> None:
    store = CheckpointStore("s3://no-such-bucket/run")
    with pytest.raises(StorageError, match="bucket does not exist; make the bucket"):
        store.acquire_lease("i", "a", IMPATIENT)


@pytest.mark.parametrize("address", ["s3://bucket", "gs://bucket/run", Path("s3://bucket/run"), "s3:/bucket/run"])
def test_other_addresses_are_refused(address: Path | str) -> None:
    with pytest.raises(ValueError, match="write s3://bucket/prefix"):
        CheckpointStore(address)


def test_a_scratch_file_that_is_no_file(s3_store: CheckpointStore, tmp_path: Path) -> None:
    draft = s3_store.begin(1, "a")
    draft.path("link").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="symbolic link"):
        draft.digest_existing("link")
    with pytest.raises(OSError, match="link"):
        open_data_file(draft.path("link"))
