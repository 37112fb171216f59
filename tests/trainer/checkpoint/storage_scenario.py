"""Run by test_storage.py as a process of its own: a checkpoint volume that is full, becomes read-only, or is somebody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, StorageError


def save(store: CheckpointStore, step: int, size: int) -> None:
    draft = store.begin(step, "a")
    try:
        digest = draft.write("model", (bytes([step]) * 10_000 for _ in range(size // 10_000)))
        store.commit(
            CommitRecord(identity="i", attempt="a", step=step, samples_consumed=step, world_size=1, files=(digest,))
        )
    except StorageError:
        draft.discard()
        raise


def message_of(store: CheckpointStore, step: int, size: int) -> str | None:
    try:
        save(store, step, size)
    except StorageError as error:
        return str(error)
    return None


def main(volume: Path, scenario: str) -> None:
    if scenario != "no-access":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", volume], check=True)
    store = CheckpointStore(volume / "lineage")
    save(store, 1, 300_000)
    if scenario == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", volume], check=True)
    if scenario == "no-access":
        store.directory.chmod(0o500)
    message = message_of(store, 2, 900_000)
    good = store.latest_good()
    later = message_of(store, 3, 100_000)
    print(json.dumps({
        "message": message, "good": good and good.step, "later": later, "steps": [record.step for record in store.records()],
        "entries": sorted(os.listdir(store.directory)),
    }))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
