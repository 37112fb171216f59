"""Files of a data volume: what it refuses, and several files as one stream."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.files import EDGE_BYTES, SAMPLED_BYTES, SAMPLED_STRETCHES, Stream, reading

PATH = Path("/data/a.bin")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EISDIR])
def test_what_another_try_would_not_mend(number: int) -> None:
    with pytest.raises(DataError, match=r"/data/a\.bin cannot be read: ") as raised, reading(PATH):
        raise OSError(number, "no")
    assert raised.value.exit_code == ExitCode.DATA_CHANGED


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN])
def test_a_volume_that_failed_is_worth_another_try(number: int) -> None:
    with pytest.raises(StorageError, match=r"cannot read /data/b: no; look at the events of the claim") as raised, reading(PATH):
        raise OSError(number, "no", "/data/b")
    assert raised.value.exit_code == ExitCode.STORAGE


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), reading(PATH):
        raise KeyError


def written(folder: Path, parts: list[bytes]) -> list[Path]:
    paths = [folder / f"{number}.bin" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part)
    return paths


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=6), data=st.data())
def test_reads_over_the_ends_of_files(tmp_path: Path, parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    stream = Stream(written(tmp_path, parts))
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, len(whole)))
    target = np.empty(end - start, dtype=np.uint8)
    stream.read_into(target, start)
    assert target.tobytes() == whole[start:end]
    assert whole[start] == parts[stream.file_at(start)][start - int(stream.starts[stream.file_at(start)])]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=6), place=st.integers(0, 200))
def test_every_byte_of_a_small_stream_is_in_its_sample(tmp_path: Path, parts: list[bytes], place: int) -> None:
    before = Stream(written(tmp_path, parts)).sample()
    index = place % len(parts)
    parts[index] = parts[index][:-1] + bytes([parts[index][-1] ^ 1])
    assert Stream(written(tmp_path, parts)).sample() != before


def test_where_a_file_ends_matters(tmp_path: Path) -> None:
    assert Stream(written(tmp_path, [b"ab", b"cd"])).sample() != Stream(written(tmp_path, [b"abc", b"d"])).sample()


def test_a_large_stream_is_sampled(tmp_path: Path) -> None:
    """40 GB, of which 39.99 are holes that no disk holds: what is read is bounded."""
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.truncate(40 * 10**9)
    sample = Stream([path]).sample()
    assert len(sample) == 2 * EDGE_BYTES + SAMPLED_STRETCHES * SAMPLED_BYTES + 16
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert Stream([path]).sample() != sample


def test_files_that_cannot_be_mapped(tmp_path: Path) -> None:
    [empty] = written(tmp_path, [b""])
    with pytest.raises(DataError, match=r"0\.bin is empty"):
        Stream([empty])
    with pytest.raises(DataError, match=r"gone\.bin cannot be read: No such file"):
        Stream([tmp_path / "gone.bin"])
    with pytest.raises(DataError, match="Is a directory"):
        Stream([tmp_path])
