"""What hashing costs a checkpoint: the same bytes written plain, through ``Draft.write`` (xxh3-128), and with SHA-256.

    .venv/bin/python benchmarks/checkpoint_hash.py [DIRECTORY] [MIB] [ROUNDS]

All three write pieces of 64 MiB to a new file and fsync it. They take turns, and the ratio of a round is to the plain write of
the same round, which a machine that is busy for a while disturbs least. ``hash alone`` digests without writing. The directory
is a temporary one by default; give the mount that checkpoints go to, or one in memory (/dev/shm) for the price of the hash alone.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.checkpoint.data_file import ChunkedHash

PIECE = 64 * 2**20


def plain(directory: Path, pieces: Sequence[memoryview]) -> None:
    """Write and fsync, nothing else."""
    with open(directory / "plain", "xb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
        os.fsync(file.fileno())


def xxh3(directory: Path, pieces: Sequence[memoryview]) -> None:
    """What a rank does in a save."""
    CheckpointStore(directory).begin(1, "benchmark").write("file", pieces)


def sha256(directory: Path, pieces: Sequence[memoryview]) -> None:
    """The plain write, with a cryptographic digest on the way."""
    digest = hashlib.sha256()
    with open(directory / "sha256", "xb", buffering=0) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        os.fsync(file.fileno())


WRITERS: dict[str, Callable[[Path, Sequence[memoryview]], None]] = {"plain": plain, "xxh3": xxh3, "sha256": sha256}


def seconds(write: Callable[[Path, Sequence[memoryview]], None], parent: Path, pieces: Sequence[memoryview]) -> float:
    """Of one file, in a directory that is new and goes afterwards."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="checkpoint-hash-") as directory:
        started = time.perf_counter()
        write(Path(directory), pieces)
        return time.perf_counter() - started


def hash_seconds(update: Callable[[memoryview], object], pieces: Sequence[memoryview]) -> float:
    """Of digesting all pieces, without writing."""
    started = time.perf_counter()
    for piece in pieces:
        update(piece)
    return time.perf_counter() - started


def main(directory: str, mebibytes: int, rounds: int) -> None:
    """Measure in turns, after one round that only warms up, and print."""
    piece = memoryview(os.urandom(PIECE))
    pieces = [piece] * max(1, mebibytes * 2**20 // PIECE)
    size = len(pieces) * PIECE / 2**30
    taken = [{name: seconds(write, Path(directory), pieces) for name, write in WRITERS.items()} for _ in range(rounds + 1)][1:]
    print(f"{size:.2f} GiB to {directory}, {rounds} rounds, {os.cpu_count()} CPUs")
    for name in WRITERS:
        median = statistics.median(one[name] for one in taken)
        ratios = sorted(one[name] / one["plain"] for one in taken)
        print(
            f"{name:8} {median:7.3f} s  {size / median:6.2f} GiB/s  {statistics.median(ratios):5.2f} of plain, "
            f"from {ratios[0]:.2f} to {ratios[-1]:.2f}"
        )
    for name, update in {"xxh3": ChunkedHash().update, "sha256": hashlib.sha256().update}.items():
        print(f"{name:8} hash alone {size / hash_seconds(update, pieces):6.2f} GiB/s")


if __name__ == "__main__":
    asked = dict(zip(("directory", "mebibytes", "rounds"), sys.argv[1:], strict=False))
    with tempfile.TemporaryDirectory() as temporary:
        main(asked.get("directory", temporary), int(asked.get("mebibytes", 512)), int(asked.get("rounds", 7)))
