"""A store with small chunks, and a way to commit files to it in one call."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from s3fs import S3FileSystem

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord

CHUNK_BYTES = 1000
BUCKET = "checkpoints"
FILES = {"model.safetensors": bytes(range(256)) * 40, "optimizer/rank-0.safetensors": b"\x07" * 3000, "empty": b""}


class Save(Protocol):
    def __call__(self, step: int, attempt: str = ..., files: Mapping[str, bytes] = ...) -> CommitRecord: ...


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "lineage", chunk_bytes=CHUNK_BYTES)


def saving(store: CheckpointStore) -> Save:
    def _save(step: int, attempt: str = "first", files: Mapping[str, bytes] = FILES) -> CommitRecord:
        draft = store.begin(step, attempt)
        digests = tuple(draft.write(name, [data[:7], data[7:]]) for name, data in files.items())
        record = CommitRecord(
            identity="digits-1", attempt=attempt, step=step, samples_consumed=step * 32, world_size=2, files=digests
        )
        store.commit(record)
        return record

    return _save


@pytest.fixture
def save(store: CheckpointStore) -> Save:
    return saving(store)


@pytest.fixture
def memory_directory(tmp_path: Path) -> Iterator[Path]:
    """In memory where the machine has such a place: a killed process loses nothing that fsync would have saved."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="trainwright-test-", dir=memory) as directory:
        yield Path(directory)


def serve_s3(*arguments: str) -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("s3_server.py")), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().strip()
        with pytest.MonkeyPatch.context() as patched:
            for name, value in s3_environment(address).items():
                patched.setenv(name, value)
            S3FileSystem(use_listings_cache=False, skip_instance_cache=True).call_s3("create_bucket", Bucket=BUCKET)
        yield address
        server.communicate(timeout=30)


def s3_environment(address: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    yield from serve_s3()


@pytest.fixture
def s3(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> S3FileSystem:
    """The store's own client. Everything in the environment points at the local server."""
    for name, value in s3_environment(s3_address).items():
        monkeypatch.setenv(name, value)
    return S3FileSystem(use_listings_cache=False)


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """Clients are shared in a process and remember the environment that they were made in."""
    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def s3_store(s3: S3FileSystem, tmp_path: Path) -> Iterator[CheckpointStore]:
    store = CheckpointStore(f"s3://{BUCKET}/{tmp_path.name}/lineage", chunk_bytes=CHUNK_BYTES)
    yield store
    store.close()
