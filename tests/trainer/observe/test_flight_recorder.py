"""Dumps of torch's flight recorder: asked for over the pipe of each rank's NCCL, and put beside the stacks."""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from trainwright_trainer.observe import flight_recorder

HEADERS = Path(torch.__file__).parent / "include" / "torch" / "csrc" / "distributed" / "c10d"
LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pod's folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


class Watched:
    """The watchdog of one rank's NCCL as far as its files go (torch, ``ProcessGroupNCCL.cpp``): it waits at a pipe, and dumps."""

    def __init__(self, attempt: str, rank: int) -> None:
        names = flight_recorder.environment(attempt)
        self._pipe = Path(f"{names['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe")
        self._dump = Path(f"{names['TORCH_FR_DUMP_TEMP_FILE']}{rank}")
        os.mkfifo(self._pipe)
        self._reader = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._serve, args=(rank,), daemon=True)
        self._thread.start()

    def _serve(self, rank: int) -> None:
        while not self._read():
            threading.Event().wait(0.05)
        self._dump.write_bytes(f"collectives of rank {rank}".encode())

    def _read(self) -> bytes:
        try:
            return os.read(self._reader, 1)
        except BlockingIOError:
            return b""


def test_ranks_are_asked_and_their_dumps_collected(own_folder: Path) -> None:
    for rank in (2, 3):
        Watched("a1", rank)
    (own_folder / "hang").mkdir()
    flight_recorder.collect("a1", [2, 3, 4], (), own_folder / "hang")  # rank 4 has no NCCL
    found = {path.name: path.read_text() for path in (own_folder / "hang").iterdir()}
    assert found == {"rank-2.nccl": "collectives of rank 2", "rank-3.nccl": "collectives of rank 3"}


def test_a_dump_that_came_by_itself_is_collected(own_folder: Path) -> None:
    """NCCL's own time-out may have come first; then nobody reads the pipe any more."""
    names = flight_recorder.environment("a1")
    Path(f"{names['TORCH_FR_DUMP_TEMP_FILE']}0").write_text("collectives")
    os.mkfifo(f"{names['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}0.pipe")
    (own_folder / "hang").mkdir()
    flight_recorder.collect("a1", [0], (), own_folder / "hang")
    assert (own_folder / "hang" / "rank-0.nccl").read_text() == "collectives"


def test_a_dump_that_grows_is_not_whole(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL writes a megabyte. Each pause between two looks lets it write a part."""
    names, parts = flight_recorder.environment("a1"), ["of ", "rank ", "0"]
    dump = Path(f"{names['TORCH_FR_DUMP_TEMP_FILE']}0")
    dump.write_text("collectives ")
    pipe = f"{names['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}0.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    (own_folder / "hang").mkdir()

    def write(seconds: float) -> None:
        dump.write_text(dump.read_text() + (parts.pop(0) if parts else ""))

    monkeypatch.setattr(flight_recorder, "time", SimpleNamespace(monotonic=time.monotonic, sleep=write))
    flight_recorder.collect("a1", [0], (), own_folder / "hang")
    os.close(reader)
    assert (own_folder / "hang" / "rank-0.nccl").read_text() == "collectives of rank 0"


def test_a_rank_that_is_stopped_is_not_awaited(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pipe has a reader, who reads nothing."""
    monkeypatch.setattr(flight_recorder, "ANSWER_SECONDS", 3600.0)
    pipe = Path(f"{flight_recorder.environment('a1')['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}0.pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    Watched("a1", 1)
    (own_folder / "hang").mkdir()
    flight_recorder.collect("a1", [0, 1], {0}, own_folder / "hang")
    os.close(reader)
    assert [path.name for path in (own_folder / "hang").iterdir()] == ["rank-1.nccl"]


def test_the_names_are_those_that_torch_reads() -> None:
    text = "".join((HEADERS / name).read_text() for name in ("ProcessGroupNCCL.hpp", "FlightRecorder.hpp"))
    with LIBRARY.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as compiled:
        for name in flight_recorder.environment("a1"):
            assert name in text or compiled.find(name.encode()) >= 0, name
