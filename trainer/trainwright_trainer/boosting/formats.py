"""Rows in memory, and the formats of the files that they are read from: csv with a header line, parquet, libsvm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainwright_trainer.contract.data import Table
from trainwright_trainer.contract.failures import DataError

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


def read(file: Path, table: Table, columns: Sequence[str] | None) -> Rows:
    """All rows of one file.

    Args:
        file: The file.
        table: Its format, and the name of its label.
        columns: Names of the features, in the order in which they are wanted; None takes them as the file has them.

    Raises:
        DataError: It cannot be read, lacks the label or has other columns, or holds something else than numbers.
    """
    if table.format == "libsvm":
        return _libsvm(file)
    label = table.label or ""
    content = _arrow(file, table.format)
    found = [name for name in content.column_names if name != label]
    _check_columns(file, content.column_names, label, found, columns)
    names = tuple(found if columns is None else columns)
    features = np.empty((content.num_rows, len(names)), dtype=np.float32)
    for number, name in enumerate(names):
        features[:, number] = _numbers(file, name, content.column(name))
    return Rows(features, _numbers(file, label, content.column(label)), names)


def _arrow(file: Path, form: str) -> Any:
    import pyarrow
    from pyarrow import csv, parquet

    try:
        return parquet.read_table(file) if form == "parquet" else csv.read_csv(file)
    except (pyarrow.ArrowException, OSError) as error:  # its errors of content derive from ValueError as well
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{file} cannot be read as {form}: {lines[0]}") from error


def _check_columns(
    file: Path, all_names: Sequence[str], label: str, found: Sequence[str], columns: Sequence[str] | None
) -> None:
    if label not in all_names:
        raise DataError(f"{file} has no column {label!r}, which work.data.label names; it has {', '.join(all_names)[:500]}")
    if twice := sorted({name for name in all_names if list(all_names).count(name) > 1}):
        raise DataError(f"{file} has more than one column {twice[0]!r}; rename one of them")
    if not found:
        raise DataError(f"{file} has no column besides its label; boosting needs features")
    if columns is not None and set(found) != set(columns):
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

    try:
        text = _COMMENT.sub(b"", file.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
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
