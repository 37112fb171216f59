"""A worker's share of a table: which files, which rows of them, and what is checked before XGBoost sees them.

Where there are as many files as workers or more, whole files are dealt out in name order: worker ``r`` of ``n`` gets files ``r``,
``r + n``, and so on. With fewer files every worker reads all of them and keeps one block of consecutive rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainwright_trainer.boosting.formats import Rows, joined, read
from trainwright_trainer.contract.boosting import Booster
from trainwright_trainer.contract.data import Table
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.files import Stream

_SHARES = ("binary:logistic", "reg:logistic")
_CLASSES = ("multi:softprob", "multi:softmax")
_COUNTS = ("count:poisson",)


@dataclass(frozen=True, slots=True)
class Share:
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

    Raises :class:`DataError` where there is none.
    """
    where = Path(path)
    try:
        if where.is_file():
            return [where]
        found = sorted(entry for entry in where.iterdir() if entry.is_file() and not entry.name.startswith((".", "_")))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; mount the data there, or correct work.data") from error
    if not found:
        raise DataError(f"{path} holds no file; a table is a file, or a directory of files without folders in it")
    return found


def read_share(table: Table, booster: Booster, share: Share, *, evaluation: bool = False) -> Rows:
    """The worker's rows of the training table, or of the one to evaluate on.

    Raises:
        DataError: Files are missing, cannot be read, have other columns than the first one of the training table, or hold labels
            that the objective has no use for; or there are fewer rows than workers.
    """
    first = files_of(table.path)[0]
    columns = read(first, table, None).names
    path = table.path if not evaluation or table.evaluation_path is None else table.evaluation_path
    files = files_of(path)
    rows = joined([read(file, table, columns) for file in share.files(files)])
    if not share.by_files(files):
        rows = rows[share.block(len(rows))]
    if not len(rows):
        raise DataError(f"{path} leaves worker {share.rank} of {share.world_size} without rows; use fewer nodes, or more data")
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
