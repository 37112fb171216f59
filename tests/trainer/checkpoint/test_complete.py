"""The COMPLETE marker is there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import Complete, StorageError, read_complete, write_complete


def test_written_and_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "lineage"
    assert read_complete(directory) is None
    first = write_complete(directory, "digits-1", 40, "a")
    assert read_complete(directory) == first
    write_complete(directory, "digits-2", 60, "b")
    found = read_complete(directory)
    assert isinstance(found, Complete)
    assert (found.identity, found.step, found.attempt) == ("digits-2", 60, "b")
    assert [path.name for path in directory.iterdir()] == ["COMPLETE"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"identity": "x"}', b"\0" * 100, b"\xff"])
def test_a_damaged_marker_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "COMPLETE").write_bytes(content)
    assert read_complete(tmp_path) is None


def test_a_directory_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "COMPLETE").mkdir()
    with pytest.raises(StorageError, match="COMPLETE: Is a directory"):
        read_complete(tmp_path)
    with pytest.raises(StorageError, match="COMPLETE"):
        write_complete(tmp_path, "i", 1, "a")
