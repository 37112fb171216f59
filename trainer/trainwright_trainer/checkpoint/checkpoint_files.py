"""A committed checkpoint's files, as engines read them."""

from __future__ import annotations

from pathlib import Path

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord


class CommittedFiles:
    """The files of one commit record, after all of them were verified."""

    def __init__(self, store: CheckpointStore, record: CommitRecord) -> None:
        self._store, self._record = store, record

    @property
    def world_size(self) -> int:
        return self._record.world_size

    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in self._record.files)

    def path(self, name: str) -> Path:
        return self._store.path(self._record, name)
