"""Layout of a lineage's directory, and the names in it.

::

    <directory>/
      step-120.k7x2/               data of step 120, written by attempt k7x2 and by no other
      commits/step-120.k7x2.json   its commit record: with it the checkpoint exists, without it this is a draft
      step-90.b0qd.bad/            quarantined, with commits/step-90.b0qd.json.bad; an object store renames no directory, so
                                   there the record's new name alone says it, and the data stays at step-90.b0qd/
      lease/                       who may write; see lease.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

from trainwright_trainer.checkpoint.volume import Volume
from trainwright_trainer.contract.base import MAX_INTEGER

ATTEMPT_PATTERN = r"[A-Za-z0-9_\-]{1,64}"
_NAME = re.compile(rf"step-(0|[1-9][0-9]{{0,15}})\.({ATTEMPT_PATTERN})")
_TEMPORARY = re.compile(rf"\.({_NAME.pattern})\.json\.[0-9a-f]+\.tmp")

COMMITS = "commits"
BAD = ".bad"


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


def data_key(name: CheckpointName) -> str:
    """Of the tree with a checkpoint's data."""
    return str(name)


def record_key(name: CheckpointName) -> str:
    return f"{COMMITS}/{name}.json"


def bad_data_key(name: CheckpointName) -> str:
    return f"{name}{BAD}"


def bad_record_key(name: CheckpointName) -> str:
    return f"{COMMITS}/{name}.json{BAD}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a lineage's directory held when somebody looked. Sorted by name, so not by step."""

    data: tuple[CheckpointName, ...]
    """Names that have data, committed or not, without what was renamed in a quarantine."""
    bad_data: tuple[CheckpointName, ...]
    records: tuple[CheckpointName, ...]
    """Names that have a commit record, good or not."""
    bad_records: tuple[CheckpointName, ...]
    temporary: tuple[tuple[CheckpointName, str], ...]
    """Records that were being written when their writer died, or that are being written now, with their keys."""

    @classmethod
    def of(cls, volume: Volume) -> Listing:
        """Look now."""
        data, commits = volume.entries(""), volume.entries(COMMITS)
        return cls(
            data=_named(data, ""), bad_data=_named(data, BAD), records=_named(commits, ".json"),
            bad_records=_named(commits, f".json{BAD}"), temporary=tuple(_temporary(commits)),
        )


def committed(volume: Volume) -> tuple[CheckpointName, ...]:
    """Names that have a commit record, good or not."""
    return _named(volume.entries(COMMITS), ".json")


def _named(entries: list[str], suffix: str) -> tuple[CheckpointName, ...]:
    names = (CheckpointName.parse(entry.removesuffix(suffix)) for entry in entries if entry.endswith(suffix))
    return tuple(name for name in names if name)


def _temporary(entries: list[str]) -> Iterator[tuple[CheckpointName, str]]:
    for entry in entries:
        if (match := _TEMPORARY.fullmatch(entry)) and (name := CheckpointName.parse(match[1])):
            yield name, f"{COMMITS}/{entry}"
