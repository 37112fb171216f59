"""Which rows a worker reads, and what it refuses to read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.boosting.table import DataShard, files_of, fingerprint, read_shard
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.contract.boosting import Booster
from trainwright_trainer.contract.data import Table
from trainwright_trainer.contract.failures import DataError

LOGISTIC = Booster(objective="binary:logistic")


def table(path: Path, form: str = "csv", **keys: Any) -> Table:
    label = {} if form == "libsvm" else {"label": "y"}
    return Table.model_validate({"source": "table", "format": form, "path": str(path), **label, **keys})


@given(st.integers(0, 40), st.integers(0, 500), st.integers(1, 12))
def test_every_file_and_row_goes_to_one_worker(files: int, rows: int, workers: int) -> None:
    paths = [Path(f"part-{number:02}") for number in range(files)]
    shards = [DataShard(rank, workers) for rank in range(workers)]
    if files >= workers:
        assert sorted(path for shard in shards for path in shard.files(paths)) == paths
    else:
        assert all(list(shard.files(paths)) == paths for shard in shards)
        blocks = [list(range(rows))[shard.block(rows)] for shard in shards]
        assert [row for block in blocks for row in block] == list(range(rows))
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


def test_fewer_files_than_workers(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("y,a\n" + "".join(f"{row % 2},{row}\n" for row in range(4, 7)))
    (tmp_path / "a.csv").write_text("a,y\n" + "".join(f"{row},{row % 2}\n" for row in range(4)))
    (tmp_path / "_SUCCESS").write_text("")
    shards = [read_shard(table(tmp_path), LOGISTIC, DataShard(rank, 3)) for rank in range(3)]
    assert [rows.features[:, 0].tolist() for rows in shards] == [[0, 1], [2, 3], [4, 5, 6]]
    assert [rows.labels.tolist() for rows in shards] == [[0, 1], [0, 1], [0, 1, 0]]


def test_csv_cells(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("y,whole,broken,flag,empty\n1,3,,true,\n0,,2.5,false,\n")
    rows = read_shard(table(tmp_path / "x.csv"), LOGISTIC, DataShard(0, 1))
    assert rows.names == ("whole", "broken", "flag", "empty")
    np.testing.assert_array_equal(rows.features, [[3, np.nan, 1, np.nan], [np.nan, 2.5, 0, np.nan]])
    assert rows.features.dtype == np.float32


def test_libsvm_rows(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 0:0.5 3:-2e-1\n\n0\t# nothing\n1 2:nan 1:+7.\r\n")
    (tmp_path / "b").write_text("0 5:1")
    rows = read_shard(table(tmp_path, "libsvm"), LOGISTIC, DataShard(0, 1))
    assert rows.labels.tolist() == [1, 0, 1, 0]
    assert rows.features.shape == (4, 6)
    assert rows.features[0].toarray().tolist()[0] == pytest.approx([0.5, 0, 0, -0.2, 0, 0])
    assert [row.nnz for row in rows.features] == [2, 0, 2, 1]


REFUSED = {
    "no such file": ("csv", None, "No such file or directory"),
    "empty": ("csv", "", "cannot be read as csv"),
    "no label": ("csv", "a,b\n1,2\n", "has no column 'y', which work.data.label names; it has a, b"),
    "only a label": ("csv", "y\n1\n", "has no column besides its label"),
    "twice": ("csv", "y,a,a\n1,2,3\n", "more than one column 'a'"),
    "text": ("csv", "y,a\n1,red\n", "column 'a' of {file} holds string, and boosting reads numbers"),
    "torn": ("csv", "y,a\n1,2\n1\n", "cannot be read as csv"),
    "not parquet": ("parquet", "y,a\n1,2\n", "cannot be read as parquet"),
    "a class": ("csv", "y,a\n2,1\n0,1\n", "objective binary:logistic are from 0 to 1; 1 of 2 rows hold others, such as 2"),
    "missing label": ("csv", "y,a\n,1\n1,1\n", "none may be missing or infinite; 1 of 2 rows hold others, such as nan"),
    "no rows": ("csv", "y,a\n", "without rows"),
    "words": ("libsvm", "1 0:1\nhello world\n", "line 2 of {file} is no row of libsvm: 'hello world'"),
    "ranking": ("libsvm", "1 qid:3 0:1\n", "line 1 of {file} is no row of libsvm"),
    "comma": ("libsvm", "1,2,3\n", "line 1 of {file} is no row of libsvm"),
}


@pytest.mark.parametrize(("form", "text", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(form: str, text: str | None, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError) as refusal:
        read_shard(table(file, form), LOGISTIC, DataShard(0, 1))
    assert sentence.format(file=file) in str(refusal.value)


@pytest.mark.parametrize(("form", "call"), [
    ("csv", "pyarrow.csv.read_csv"), ("parquet", "pyarrow.parquet.read_table"), ("libsvm", "pathlib.Path.read_bytes"),
    ("csv", "pathlib.Path.iterdir"), ("csv", "pyarrow.csv.open_csv"), ("parquet", "pyarrow.parquet.read_schema"),
])
def test_a_volume_that_fails(form: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_row(tmp_path / "x", form)
    monkeypatch.setattr(call, failing(errno.ESTALE))
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}.*: {os.strerror(errno.ESTALE)}"):
        read_shard(table(tmp_path, form), LOGISTIC, DataShard(0, 1))
    monkeypatch.setattr(call, failing(errno.ENOENT))
    with pytest.raises(DataError, match=f"{tmp_path}.* cannot be read: {os.strerror(errno.ENOENT)}"):
        read_shard(table(tmp_path, form), LOGISTIC, DataShard(0, 1))


@pytest.mark.parametrize("form", ["csv", "parquet", "libsvm"])
def test_each_file_is_read_once(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import csv, parquet

    for name in ("train", "held-out"):
        write_row(tmp_path / name, form)
    read: list[Path] = []
    for home, call in ((csv, "read_csv"), (parquet, "read_table"), (Path, "read_bytes")):
        monkeypatch.setattr(home, call, noting(getattr(home, call), read))
    both = table(tmp_path / "train", form, evaluation_path=str(tmp_path / "held-out"))
    for evaluation in (False, True):
        read_shard(both, LOGISTIC, DataShard(0, 1), evaluation=evaluation)
    assert read == [tmp_path / "train", tmp_path / "held-out"]


def noting(call: Callable[[Path], Any], noted: list[Path]) -> Callable[[Path], Any]:
    def noting_call(path: Path) -> Any:
        noted.append(path)
        return call(path)

    return noting_call


def write_row(path: Path, form: str) -> None:
    import pyarrow
    from pyarrow import parquet

    if form == "parquet":
        parquet.write_table(pyarrow.table({"y": [1], "a": [1]}), path)
    else:
        path.write_text("y,a\n1,1\n" if form == "csv" else "1 0:1\n")


def failing(number: int) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


def test_classes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("y,a\n0,1\n3,1\n1.5,1\n")
    with pytest.raises(DataError, match="are classes 0 to 2; 2 of 3 rows hold others, such as 3"):
        read_shard(table(tmp_path / "x.csv"), Booster(objective="multi:softprob", num_class=3), DataShard(0, 1))


def test_files_with_other_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y,a,b\n1,1,1\n")
    (tmp_path / "b.csv").write_text("y,a,c\n1,1,1\n")
    with pytest.raises(DataError, match=r"b\.csv has other columns than .*: it lacks b and has c more"):
        read_shard(table(tmp_path), LOGISTIC, DataShard(0, 1))


def test_more_workers_than_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y,a\n1,1\n")
    with pytest.raises(DataError, match="leaves worker 0 of 2 without rows; use fewer nodes, or more data"):
        read_shard(table(tmp_path), LOGISTIC, DataShard(0, 2))


def test_fingerprint(tmp_path: Path) -> None:
    file, where = tmp_path / "a.csv", table(tmp_path)
    file.write_bytes(b"y,a\n" + b"1,1\n" * 1000)
    first = fingerprint(where, files_of(where.path))
    assert fingerprint(where, files_of(where.path)) == first
    assert fingerprint(table(tmp_path, label="a"), files_of(where.path)) != first
    with file.open("r+b") as opened:
        opened.seek(-2, 2)
        opened.write(b"0")
    assert fingerprint(where, files_of(where.path)) != first
    file.rename(tmp_path / "b.csv")
    assert fingerprint(where, files_of(where.path)) != first
