"""What a commit rests on is fsynced before the link that makes it visible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, StorageError
from trainwright_trainer.checkpoint.storage import append_line, create_file, make_directory, replace_file


def test_everything_is_synced_in_order(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, int]] = []
    fsync, link = os.fsync, os.link

    def recording_fsync(descriptor: int) -> None:
        fsync(descriptor)
        order.append(("sync", os.fstat(descriptor).st_ino))

    def recording_link(source: Path, target: Path) -> None:
        order.append(("link", os.stat(source).st_ino))
        link(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "link", recording_link)
    draft = store.begin(7, "first")
    draft.path("by-library").write_bytes(b"xyz")
    files = (draft.write("model", [b"abc"]), draft.write("optimizer/rank-0", []), draft.digest_existing("by-library"))
    record = CommitRecord(identity="i", attempt="first", step=7, samples_consumed=7, world_size=1, files=files)
    store.commit(record)

    data, commits = store.directory / "step-7.first", store.directory / "commits"
    linked = order.index(("link", (commits / "step-7.first.json").stat().st_ino))
    before = {inode for _, inode in order[:linked]}
    needed = [store.path(record, file.name) for file in record.files]
    needed += [data, data / "optimizer", commits / "step-7.first.json", store.directory, store.directory.parent]
    assert {path.name for path in needed if path.stat().st_ino not in before} == set()
    assert order[linked + 1 :] == [("sync", commits.stat().st_ino)]


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match="Input/output error; the volume itself failed"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_system_without_directory_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def picky(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(tmp_path):
            raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", picky)
    make_directory(tmp_path / "a" / "b")
    replace_file(tmp_path / "file", b"x")
    assert (tmp_path / "a" / "b").is_dir()


def test_one_creates(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert create_file(path, b"first")
    assert not create_file(path, b"second")
    assert create_file(path, b"first"), "its own content: the answer to the first try was lost"
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"first", ["file"])


def test_one_creates_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    test_one_creates(tmp_path)


def test_a_line_after_one_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append_line(path, b"one")
    path.write_bytes(path.read_bytes() + b"cut")
    append_line(path, b"two")
    assert path.read_bytes() == b"one\ncut\ntwo\n"
