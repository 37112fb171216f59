"""Witness: a rank's own account of each step that it took, for commands that measure or prove a run on one machine.

``bench`` asks for times and ``verify-resume`` for samples, through an environment variable of the pod. Without it nothing is
written, and a step costs nothing more. A line is one write, so that what was said before a SIGKILL stays said.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeVar

import numpy as np
import xxhash
from pydantic import Field, TypeAdapter, ValidationError

from trainwright_trainer.contract.base import Contract, Elapsed, Index
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.rank.place import Place

if TYPE_CHECKING:
    import torch

    from trainwright_trainer.task.base import Batch

WITNESS_ENV = "TRAINWRIGHT_WITNESS"
"""Environment variable: ``times:DIRECTORY`` or ``samples:DIRECTORY``; a file for each rank appears there."""

_STATUS = Path("/proc/self/status")


class StepTime(Contract):
    """When a step ended on one rank, and what it waited for its data."""

    type: Literal["time"] = "time"
    step: Index
    at: Elapsed
    """Seconds on this machine's monotonic clock; the same for all of its ranks."""
    data_seconds: Elapsed
    """Until the step's batches were there."""
    peak_bytes: Index
    """Most memory so far: what torch took of the GPU, or what the process had resident."""
    device: str
    """Name of the GPU, or ``cpu``."""


class StepSamples(Contract):
    """What one rank computed a step from. The three lists are of equal length, a place for each sample."""

    type: Literal["samples"] = "samples"
    step: Index
    positions: tuple[Index, ...]
    """In the run's endless stream."""
    ids: tuple[Index, ...]
    """In the training split."""
    contents: tuple[str, ...]
    """xxh3-64 of the tensors that the model was fed, row by row: one id with two contents is another sample."""


Account = TypeVar("Account", StepTime, StepSamples)
_LINE: TypeAdapter[StepTime | StepSamples] = TypeAdapter(Annotated[StepTime | StepSamples, Field(discriminator="type")])


class Witness(Protocol):
    """Hears of each step from the learner."""

    def record(self, step: int, samples: Sequence[Samples], batches: Sequence[Batch], data_seconds: float) -> None:
        """A step is done, from these micro batches of this rank."""


class Nobody:
    """The witness of a run that nobody asked about."""

    def record(self, step: int, samples: Sequence[Samples], batches: Sequence[Batch], data_seconds: float) -> None:
        pass


class TimeWitness:
    """Writes a :class:`StepTime` for each step. Reads nothing from the device, so that its queue stays as full as without."""

    def __init__(self, path: Path, device: torch.device) -> None:
        self._lines, self._device, self._name = _Lines(path), device, _device_name(device)

    def record(self, step: int, samples: Sequence[Samples], batches: Sequence[Batch], data_seconds: float) -> None:
        at, peak = time.monotonic(), _peak_bytes(self._device)
        self._lines.add(StepTime(step=step, at=at, data_seconds=data_seconds, peak_bytes=peak, device=self._name))


class SampleWitness:
    """Writes a :class:`StepSamples` for each step."""

    def __init__(self, path: Path) -> None:
        self._lines = _Lines(path)

    def record(self, step: int, samples: Sequence[Samples], batches: Sequence[Batch], data_seconds: float) -> None:
        rows = [
            (position, number, content)
            for part, batch in zip(samples, batches, strict=True)
            for position, number, content in zip(part.positions.tolist(), part.ids.tolist(), _contents(batch), strict=True)
            if number != PADDING
        ]
        positions, ids, contents = zip(*rows, strict=True) if rows else ((), (), ())
        self._lines.add(StepSamples(step=step, positions=positions, ids=ids, contents=contents))


def open_witness(environment: Mapping[str, str], place: Place, device: torch.device) -> Witness:
    """The one that the environment asks for. Raises ``OSError`` where it cannot write, ``ValueError`` for another word."""
    asked = environment.get(WITNESS_ENV)
    if not asked:
        return Nobody()
    kind, _, folder = asked.partition(":")
    path = account_path(Path(folder), place.rank)
    if kind == "times":
        return TimeWitness(path, device)
    if kind == "samples":
        return SampleWitness(path)
    raise ValueError(f"{WITNESS_ENV} is {asked!r}; it must be times:DIRECTORY or samples:DIRECTORY")


def account_path(folder: Path, rank: int) -> Path:
    """Where a rank's witness writes."""
    return folder / f"rank-{rank}.jsonl"


def read_account(folder: Path, rank: int, kind: type[Account]) -> list[Account]:
    """What a rank said, in the order of its steps. A last line that a SIGKILL cut is passed over; no file is no line.

    Raises:
        ValueError: Another line is no account.
    """
    path = account_path(folder, rank)
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            account = _LINE.validate_json(line)
        except ValidationError as error:
            if number == len(lines):
                break
            raise ValueError(f"line {number} of {path} is no account of a step: {line[:80]!r}") from error
        if isinstance(account, kind):
            found.append(account)
    return found


class _Lines:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def add(self, account: StepTime | StepSamples) -> None:
        os.write(self._file, account.model_dump_json().encode() + b"\n")


def _contents(batch: Batch) -> list[str]:
    """A digest for each row of a batch, over all of its tensors by name."""
    columns = [np.ascontiguousarray(batch[name].cpu().numpy()) for name in sorted(batch)]
    rows = len(columns[0])
    return [xxhash.xxh3_64_hexdigest(b"".join(column[row].tobytes() for column in columns)) for row in range(rows)]


def _device_name(device: torch.device) -> str:
    if device.type == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name(device)


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        import torch

        return int(torch.cuda.max_memory_reserved(device))
    return resident_peak()


def resident_peak() -> int:
    """Most bytes that this process had resident; ``getrusage`` would count what its parent had before ``exec`` too."""
    try:
        [line] = [line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):  # no Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
