"""Layout of a lineage's directory, and the names in it.

::

    <directory>/
      step-120.k7x2/               data of step 120, written by attempt k7x2 and by no other
      commits/step-120.k7x2.json   its commit record: with it the checkpoint exists, without it this is a draft
      step-90.b0qd.bad/            quarantined, with commits/step-90.b0qd.json.bad

An object store could keep the same names as keys: nothing depends on renaming a directory but quarantine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.base import MAX_INTEGER

ATTEMPT_PATTERN = r"[A-Za-z0-9_\-]{1,64}"
_NAME = re.compile(rf"step-(0|[1-9][0-9]{{0,15}})\.({ATTEMPT_PATTERN})")
_TEMPORARY = re.compile(rf"\.({_NAME.pattern})\.json\.[0-9a-f]+\.tmp")
_PART = re.compile(r"[A-Za-z0-9._\-]{1,255}")
MAX_FILE_NAME = 1024

BAD = ".bad"


def checked_file_name(name: str) -> str:
    """A data file's path inside its checkpoint: relative, ``/`` between plain parts. Raises ``ValueError`` for any other."""
    parts = name.split("/")
    if len(name) > MAX_FILE_NAME or any(not _PART.fullmatch(part) or part in (".", "..") for part in parts):
        raise ValueError(
            f"{name!r} is not a checkpoint file name: use letters, digits, '.', '_' and '-', '/' between directories, and no '..'"
        )
    return name


FileName = Annotated[str, AfterValidator(checked_file_name)]
Attempt = Annotated[str, StringConstraints(pattern=rf"^{ATTEMPT_PATTERN}$")]


@dataclass(frozen=True, slots=True, order=True)
class CheckpointName:
    """Which checkpoint: the step, and the attempt that wrote it. Two attempts at one step never share a name."""

    step: int
    attempt: str

    def __post_init__(self) -> None:
        if not 0 <= self.step <= MAX_INTEGER:
            raise ValueError(f"step {self.step} is not between 0 and {MAX_INTEGER}")
        if not re.fullmatch(ATTEMPT_PATTERN, self.attempt):
            raise ValueError(f"attempt {self.attempt!r} must be 1 to 64 letters, digits, '_' or '-'")

    def __str__(self) -> str:
        return f"step-{self.step}.{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """The name that ``text`` spells, or None for any other text."""
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), match[2]) if match and int(match[1]) <= MAX_INTEGER else None


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths inside one lineage's directory."""

    directory: Path

    @property
    def commits(self) -> Path:
        return self.directory / "commits"

    def data(self, name: CheckpointName) -> Path:
        return self.directory / str(name)

    def record(self, name: CheckpointName) -> Path:
        return self.commits / f"{name}.json"

    def bad_data(self, name: CheckpointName) -> Path:
        return self.directory / f"{name}{BAD}"

    def bad_record(self, name: CheckpointName) -> Path:
        return self.commits / f"{name}.json{BAD}"

    def committed(self) -> Iterator[CheckpointName]:
        """Names that have a commit record, good or not."""
        return _named(self.commits, ".json")

    def data_directories(self) -> Iterator[CheckpointName]:
        """Names that have data, committed or not, without the quarantined ones."""
        return _named(self.directory, "")

    def bad_records(self) -> Iterator[CheckpointName]:
        """Names of which the record is quarantined."""
        return _named(self.commits, f".json{BAD}")

    def bad_directories(self) -> Iterator[CheckpointName]:
        """Names of which the data is quarantined."""
        return _named(self.directory, BAD)

    def temporary_records(self) -> Iterator[tuple[CheckpointName, Path]]:
        """Records that were being written when their writer died, or that are being written now."""
        for entry in _entries(self.commits):
            if match := _TEMPORARY.fullmatch(entry):
                name = CheckpointName.parse(match[1])
                if name:
                    yield name, self.commits / entry


def _named(directory: Path, suffix: str) -> Iterator[CheckpointName]:
    for entry in _entries(directory):
        if entry.endswith(suffix) and (name := CheckpointName.parse(entry.removesuffix(suffix))):
            yield name


def _entries(directory: Path) -> list[str]:
    """Sorted entries; none where the directory does not exist yet."""
    with storage_errors("list", directory):
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
