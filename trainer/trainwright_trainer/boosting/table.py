"""A worker's shard of a table: which files, which rows of them, and what is checked before XGBoost sees them.

Where there are as many files as workers or more, whole files are dealt out in name order: worker ``r`` of ``n`` gets files ``r``,
``r + n``, and so on. With fewer files every worker reads all of them and keeps one block of consecutive rows. The files are csv
with a header line, parquet, or libsvm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainwright_trainer.contract.boosting import Booster
from trainwright_trainer.contract.data import Table
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.files import Stream, reading

Features: TypeAlias = Any
"""float32 ``(n, columns)``: an array in which NaN is missing, or a sparse ``scipy.sparse.csr_matrix`` in which what is not stored
is missing."""
Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table."""

    features: Features
    labels: Labels
    """Shape ``(n,)``."""
    names: tuple[str, ...] | None
    """Of the columns, where the format has names."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.features[part], self.labels[part], self.names)


_NUMBER = rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_LIBSVM_ROW = re.compile(rb"[ \t]*" + _NUMBER + rb"(?:[ \t]+\d+:" + _NUMBER + rb")*[ \t\r]*")
_COMMENT = re.compile(rb"#[^\n]*")
_NEWLINE, _COLON = ord("\n"), ord(":")


def read(file: Path, table: Table, columns: Sequence[str]) -> Rows:
    """All rows of one file.

    Args:
        file: The file.
        table: Its format, and the name of its label.
        columns: Names of the features, in the order in which they are wanted; libsvm has none.

    Raises:
        DataError: It cannot be read, lacks the label or has other columns, or holds something else than numbers.
        StorageError: The volume failed.
    """
    if table.format == "libsvm":
        return _libsvm(file)
    from pyarrow import csv, parquet

    with _arrow(file, table.format):
        content = parquet.read_table(file) if table.format == "parquet" else csv.read_csv(file)
    label = table.label or ""
    _refuse_others(file, _features(file, content.column_names, label), columns)
    features = np.empty((content.num_rows, len(columns)), dtype=np.float32)
    for number, name in enumerate(columns):
        features[:, number] = _numbers(file, name, content.column(name))
    return Rows(features, _numbers(file, label, content.column(label)), tuple(columns))


def _columns(first: Path, table: Table) -> Sequence[str]:
    """Names of the features, from the schema or the header line of the table's first file; none of libsvm. Reads no further."""
    if table.format == "libsvm":
        return ()
    from pyarrow import csv, parquet

    with _arrow(first, table.format):
        if table.format == "parquet":
            names = parquet.read_schema(first).names
        else:
            with csv.open_csv(first) as opened:
                names = opened.schema.names
    return _features(first, names, table.label or "")


@contextmanager
def _arrow(file: Path, form: str) -> Iterator[None]:
    """Turn what Arrow says of a file into a :class:`DataError`, or a :class:`StorageError` where the volume failed."""
    import pyarrow

    with reading(file):
        try:
            yield
        except pyarrow.ArrowException as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise DataError(f"{file} cannot be read as {form}: {lines[0]}") from error


def _features(file: Path, all_names: Sequence[str], label: str) -> Sequence[str]:
    """All columns but the label."""
    if label not in all_names:
        raise DataError(f"{file} has no column {label!r}, which work.data.label names; it has {', '.join(all_names)[:500]}")
    if twice := sorted({name for name in all_names if list(all_names).count(name) > 1}):
        raise DataError(f"{file} has more than one column {twice[0]!r}; rename one of them")
    if found := [name for name in all_names if name != label]:
        return found
    raise DataError(f"{file} has no column besides its label; boosting needs features")


def _refuse_others(file: Path, found: Sequence[str], columns: Sequence[str]) -> None:
    if set(found) != set(columns):
        lacks, more = sorted(set(columns) - set(found)), sorted(set(found) - set(columns))
        differences = [f"lacks {', '.join(lacks)}"] * bool(lacks) + [f"has {', '.join(more)} more"] * bool(more)
        described = " and ".join(differences)[:1000]
        raise DataError(f"{file} has other columns than the first file of the training table: it {described}")


def _numbers(file: Path, name: str, column: Any) -> Labels:
    """A column as float32; null is NaN."""
    from pyarrow import types

    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan, dtype=np.float32)
    if types.is_boolean(kind) or types.is_decimal(kind):
        column = column.cast("float64" if types.is_decimal(kind) else "int8")
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        raise DataError(f"column {name!r} of {file} holds {kind}, and boosting reads numbers: encode it, or leave it out")
    return np.asarray(column.to_numpy(), dtype=np.float32)


def _libsvm(file: Path) -> Rows:
    """``LABEL INDEX:VALUE INDEX:VALUE ...`` a line, with indexes as they stand; ``#`` begins a comment."""
    from scipy import sparse  # type: ignore[import-untyped]

    with reading(file):
        text = _COMMENT.sub(b"", file.read_bytes())
    lines = text.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() and not _LIBSVM_ROW.fullmatch(line):
            raise DataError(
                f"line {number} of {file} is no row of libsvm: {line[:80].decode(errors='replace')!r}; a row is a label and then "
                "index:value for each feature"
            )
    rows = b"\n".join(line for line in lines if line.strip()) + b"\n"
    if rows == b"\n":
        return Rows(sparse.csr_matrix((0, 0), dtype=np.float32), np.empty(0, dtype=np.float32), None)
    # All numbers of the file in one flat array: a label, and two numbers for each colon of its line.
    codes = np.frombuffer(rows, dtype=np.uint8)
    colons = np.cumsum(codes == _COLON)[codes == _NEWLINE]
    ends = np.concatenate([[0], colons])
    flat = np.fromstring(rows.replace(b":", b" ").decode(), dtype=np.float64, sep=" ")
    at_label = np.arange(len(colons)) + 2 * ends[:-1]
    pairs = np.delete(flat, at_label).reshape(-1, 2)
    indexes = pairs[:, 0].astype(np.int64)
    shape = (len(colons), int(indexes.max(initial=-1)) + 1)
    features = sparse.csr_matrix((pairs[:, 1].astype(np.float32), indexes, ends), shape=shape)
    return Rows(features, flat[at_label].astype(np.float32), None)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several files, in order; their columns are the same."""
    if len(parts) == 1:
        return parts[0]
    labels = np.concatenate([part.labels for part in parts])
    if parts[0].names is not None:
        return Rows(np.concatenate([part.features for part in parts]), labels, parts[0].names)
    from scipy import sparse

    width = max(part.features.shape[1] for part in parts)
    for part in parts:
        part.features.resize((part.features.shape[0], width))  # a file knows only the columns that occur in it
    return Rows(sparse.vstack([part.features for part in parts], format="csr"), labels, None)


_SHARES = ("binary:logistic", "reg:logistic")
_CLASSES = ("multi:softprob", "multi:softmax")
_COUNTS = ("count:poisson",)


@dataclass(frozen=True, slots=True)
class DataShard:
    """Which part of the data a worker takes."""

    rank: int
    world_size: int

    def files(self, files: Sequence[Path]) -> Sequence[Path]:
        return files[self.rank :: self.world_size] if self.by_files(files) else files

    def by_files(self, files: Sequence[Path]) -> bool:
        """Whether whole files are dealt out."""
        return len(files) >= self.world_size

    def block(self, rows: int) -> slice:
        """This worker's block of so many rows; blocks differ by one row at most."""
        return slice(rows * self.rank // self.world_size, rows * (self.rank + 1) // self.world_size)


def files_of(path: str) -> list[Path]:
    """The file, or a directory's files in name order; those that begin with a dot or an underscore are marks of other programs.

    Raises :class:`DataError` where there is none, and :class:`StorageError` where the volume failed.
    """
    where = Path(path)
    with reading(where):
        if where.is_file():
            return [where]
        found = sorted(entry for entry in where.iterdir() if entry.is_file() and not entry.name.startswith((".", "_")))
    if not found:
        raise DataError(f"{path} holds no file; a table is a file, or a directory of files without folders in it")
    return found


def read_shard(table: Table, booster: Booster, shard: DataShard, *, evaluation: bool = False) -> Rows:
    """The worker's rows of the training table, or of the one to evaluate on.

    Raises:
        DataError: Files are missing, cannot be read, have other columns than the first one of the training table, or hold labels
            that the objective has no use for; or there are fewer rows than workers.
        StorageError: The volume failed.
    """
    columns = _columns(files_of(table.path)[0], table)
    path = table.path if not evaluation or table.evaluation_path is None else table.evaluation_path
    files = files_of(path)
    rows = joined([read(file, table, columns) for file in shard.files(files)])
    if not shard.by_files(files):
        rows = rows[shard.block(len(rows))]
    if not len(rows):
        raise DataError(f"{path} leaves worker {shard.rank} of {shard.world_size} without rows; use fewer nodes, or more data")
    for problem in _wrong_labels(rows, booster):
        raise DataError(f"{path}: {problem}")
    return rows


def _wrong_labels(rows: Rows, booster: Booster) -> Iterator[str]:
    labels, objective = rows.labels, booster.objective
    bad, must = np.zeros(len(labels), dtype=bool), ""
    if objective in _SHARES:
        bad, must = (labels < 0) | (labels > 1), "from 0 to 1"
    elif objective in _COUNTS:
        bad, must = labels < 0, "0 or more"
    elif objective in _CLASSES:
        bad = (labels < 0) | (labels >= (booster.num_class or 0)) | (labels != np.floor(labels))
        must = f"classes 0 to {(booster.num_class or 0) - 1}"
    if not np.isfinite(labels).all():
        bad, must = ~np.isfinite(labels), "numbers, and none may be missing or infinite"
    if bad.any():
        count = f"{int(bad.sum())} of {len(labels)} rows hold others, such as {labels[bad][0]:g}"
        yield f"labels of objective {objective} are {must}; {count}"


def fingerprint(table: Table, files: Sequence[Path]) -> str:
    """Digest of the format, the label's name, the files' names, and :meth:`Stream.sample` of the files in the order given.

    Raises :class:`DataError` where a file is missing or empty.
    """
    names = [file.name for file in files]
    digest = hashlib.sha256(f"table v1:{table.format}:{table.label!r}:{names!r}:".encode(errors="backslashreplace"))
    digest.update(Stream(files).sample())
    return digest.hexdigest()
