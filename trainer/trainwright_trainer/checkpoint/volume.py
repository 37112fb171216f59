"""Volume: where a lineage's files live, and the names that they have there.

It is one interface, with a POSIX file system or an object store behind it. A key is a path relative to the lineage's directory,
with ``/`` between its parts. A *tree* is the key of a checkpoint's data directory, ``step-120.k7x2``; a data file has a name
inside its tree. Everything else is a small file, read and written whole. Every method may be called from any thread. All raise
:class:`StorageError` where the volume refuses.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import StringConstraints

from trainwright_trainer.checkpoint.data_file import FileDigest
from trainwright_trainer.checkpoint.storage import DataGoneError
from trainwright_trainer.contract.base import MAX_INTEGER

OBJECT_STORES = ("s3://",)


class Volume(Protocol):
    """One lineage's directory."""

    def location(self, key: str) -> str:
        """The key as a person finds it: an absolute path, or an address."""
        ...

    def entries(self, directory: str) -> list[str]:
        """Sorted names right under a directory (``""`` is the lineage's own); none where there is no such directory."""
        ...

    def read(self, key: str) -> bytes | None:
        """A small file, or None where there is none."""
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Write a small file durably: a reader sees the old content or the new one, never a mixture."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Write a small file durably, and only where there is none. Of any number of callers at once, one gets True."""
        ...

    def overwrite(self, key: str, data: bytes) -> None:
        """Write a small file fast: a reader may see a part of it, and a power cut may lose it. For heartbeats."""
        ...

    def append(self, key: str, line: bytes) -> None:
        """Add a line, which ends without a newline, durably. One writer: on an object store two at once may lose a line."""
        ...

    def move(self, source: str, target: str) -> None:
        """Give a small file another key. One that is gone is fine: somebody else moved it."""
        ...

    def remove(self, key: str) -> bool:
        """Remove a small file. Whether there was one."""
        ...

    def make_tree(self, tree: str) -> None:
        """Make a tree durably; one that is there is fine."""
        ...

    def remove_tree(self, tree: str) -> bool:
        """Remove a tree with all its files. Whether there was one."""
        ...

    def set_aside(self, tree: str, target: str) -> str:
        """Give a tree another key if the volume can, and say under which key its data is from now on."""
        ...

    def write(self, tree: str, name: str, pieces: Iterable[memoryview]) -> None:
        """Write a new data file durably. If it fails, or ``pieces`` does, nothing is left of it."""
        ...

    def adopt(self, tree: str, name: str, seen: Callable[[memoryview], None]) -> None:
        """Make durable what a library wrote at :meth:`local`; ``seen`` gets all of its bytes in order."""
        ...

    def local(self, tree: str, name: str) -> Path:
        """Where a library on this machine shall write a data file; its directory is there."""
        ...

    def fetch(self, tree: str, digest: FileDigest) -> Path:
        """Where a library on this machine can read a data file. A copy is checked against ``digest`` on its way here."""
        ...

    def sizes(self, tree: str, names: Iterable[str]) -> Mapping[str, int | DataGoneError]:
        """Bytes of each of these data files, or why there is no such file."""
        ...

    def pieces(self, tree: str, name: str, start: int, length: int) -> Iterator[memoryview]:
        """``length`` bytes from ``start``, or fewer where the file ends. A piece is good until the next. Raises DataGoneError."""
        ...

    def close(self) -> None:
        """Remove copies that were made on this machine."""
        ...


def open_volume(directory: Path | str) -> Volume:
    """The volume of an absolute path, or of an address such as ``s3://bucket/run/lineage``.

    Raises ``ValueError`` for another kind of address and for one that became a ``Path``, which loses a slash.
    """
    # Both are imported here, so that neither costs the users of the other.
    text = str(directory)
    if not isinstance(directory, Path) and text.startswith(OBJECT_STORES):
        from trainwright_trainer.checkpoint.object_volume import ObjectVolume

        return ObjectVolume(text)
    if ":/" in text.split("/", 1)[0] + "/":
        raise ValueError(f"{text} is no directory and no address of an object store: write s3://bucket/prefix, as text")
    from trainwright_trainer.checkpoint.posix_volume import PosixVolume

    return PosixVolume(Path(directory))


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
