"""Files of any size come back byte by byte; a bad name or a failed write leaves nothing behind."""

from __future__ import annotations

import array
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, StorageError


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    size=st.sampled_from([0, 1, 999, 1000, 1001, 1999, 2000, 2001]) | st.integers(0, 5000),
    piece=st.sampled_from([1, 333, 1000, 4096]),
    seed=st.binary(min_size=1, max_size=4),
)
def test_roundtrip(store: CheckpointStore, size: int, piece: int, seed: bytes) -> None:
    data = (seed * size)[:size]
    draft = store.begin(1, "a")
    written = draft.write("written", (data[at : at + piece] for at in range(0, size, piece)))
    draft.path("library").write_bytes(data)
    by_library = draft.digest_existing("library")
    assert written.model_copy(update={"name": "library"}) == by_library
    record = CommitRecord(identity="i", attempt="a", step=1, samples_consumed=1, world_size=1, files=(written, by_library))
    path = Path(store.commit(record))
    assert store.verify(store.records()[0]) == []
    assert store.path(record, "written").read_bytes() == store.path(record, "library").read_bytes() == data
    path.unlink()  # back to a draft, for the next example


def test_views_of_any_shape(store: CheckpointStore) -> None:
    numbers = memoryview(array.array("d", range(6)))
    grid = numbers.cast("B").cast("d", (2, 3))
    draft = store.begin(1, "a")
    draft.write("f", [grid, bytearray(b"xy"), numbers[:0]])
    assert draft.path("f").read_bytes() == numbers.tobytes() + b"xy"
    with pytest.raises(ValueError, match="not contiguous"):
        draft.write("g", [numbers[::2]])
    assert not draft.path("g").exists()


def test_another_process_writes_to_the_same_draft(store: CheckpointStore) -> None:
    store.begin(1, "a")
    digest = CheckpointStore(store.directory).draft(1, "a").write("rank-1", [b"abc"])
    assert (store.directory / "step-1.a" / "rank-1").read_bytes() == b"abc"
    assert digest.size == 3


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", ".."])
def test_names_stay_inside(store: CheckpointStore, name: str) -> None:
    draft = store.begin(1, "a")
    for use in (draft.path, draft.digest_existing, lambda n: draft.write(n, [b"x"])):
        with pytest.raises(ValueError, match="not a checkpoint file name"):
            use(name)
    assert os.listdir(store.directory / str(draft.name)) == []


def test_a_source_that_fails_leaves_no_file(store: CheckpointStore) -> None:
    def source() -> Iterator[bytes]:
        yield b"x" * 5000
        raise RuntimeError("device lost")

    draft = store.begin(1, "a")
    with pytest.raises(RuntimeError, match="device lost"):
        draft.write("f", source())
    assert os.listdir(store.directory / str(draft.name)) == []


def test_a_file_is_written_once(store: CheckpointStore) -> None:
    draft = store.begin(1, "a")
    draft.write("f", [b"one"])
    with pytest.raises(StorageError, match="in the way"):
        draft.write("f", [b"two"])
    assert draft.path("f").read_bytes() == b"one"


def test_a_library_that_wrote_no_plain_file(store: CheckpointStore, tmp_path: Path) -> None:
    draft = store.begin(1, "a")
    (tmp_path / "elsewhere").write_bytes(b"x")
    draft.path("link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(draft.path("pipe"))
    draft.path("directory").mkdir()
    for name in ("missing", "link", "pipe", "directory"):
        with pytest.raises(StorageError, match=name) as caught:
            draft.digest_existing(name)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301  ranks send it to rank 0


def test_begin_starts_over_in_a_draft_that_failed(store: CheckpointStore) -> None:
    store.begin(1, "a").write("f", [b"old"])
    draft = store.begin(1, "a")
    assert os.listdir(store.directory / str(draft.name)) == []
    draft.discard()
    draft.discard()
    assert not (store.directory / str(draft.name)).exists()
