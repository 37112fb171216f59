"""A store with small chunks, and a way to commit files to it in one call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord

CHUNK_BYTES = 1000
FILES = {"model.safetensors": bytes(range(256)) * 40, "optimizer/rank-0.safetensors": b"\x07" * 3000, "empty": b""}


class Save(Protocol):
    def __call__(self, step: int, attempt: str = ..., files: Mapping[str, bytes] = ...) -> CommitRecord: ...


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "lineage", chunk_bytes=CHUNK_BYTES)


@pytest.fixture
def save(store: CheckpointStore) -> Save:
    def _save(step: int, attempt: str = "first", files: Mapping[str, bytes] = FILES) -> CommitRecord:
        draft = store.begin(step, attempt)
        digests = tuple(draft.write(name, [data[:7], data[7:]]) for name, data in files.items())
        record = CommitRecord(
            identity="digits-1", attempt=attempt, step=step, samples_consumed=step * 32, world_size=2, files=digests
        )
        store.commit(record)
        return record

    return _save
