"""Preflight: the checks of a node, within a budget, and what becomes of a node that fails one. No torch in here."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.checkpoint.storage import make_directory, storage_errors, sync_directory
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.spec import Preflight, RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight.device import Memory, OnDevice, check_device, check_gpus, check_memory
from trainwright_trainer.rank.preflight.fitness import (
    Control,
    NodeUnhealthyError,
    UnfitError,
    at_least,
    at_most,
    compare_with_median,
    shares_of_median,
)
from trainwright_trainer.rank.preflight.network import WARNING_SECONDS, WHY, Buffer, check_collective, clock_skew, compare_clocks

BLOCK_BYTES = 1 << 20
STORAGE_MEGABYTES = {"cuda": 64, "cpu": 4}
OF_DEVICES = ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second")
"""Thresholds for what a library without arithmetic of its own cannot measure."""


@dataclass(slots=True)
class Results:
    """None for what was not checked."""

    tflops: float | None = None
    share_of_median: float | None = None
    """Of the slowest rank on this node."""
    memory_bytes_per_second: float | None = None
    storage_seconds: float | None = None
    clock_skew_seconds: float | None = None
    bus_bytes_per_second: float | None = None

    def metrics(self) -> dict[str, float]:
        """By name, as in the table of metrics."""
        values = {
            "trainwright_preflight_tflops": self.tflops,
            "trainwright_preflight_share_of_median": self.share_of_median,
            "trainwright_preflight_memory_bytes_per_second": self.memory_bytes_per_second,
            "trainwright_preflight_storage_seconds": self.storage_seconds,
            "trainwright_preflight_clock_skew_seconds": self.clock_skew_seconds,
            "trainwright_preflight_bus_bytes_per_second": self.bus_bytes_per_second,
        }
        return {name: value for name, value in values.items() if value is not None}


class DamagedError(UnfitError):
    """What was read is not what was written."""


def check_storage(directory: Path, name: str, megabytes: int) -> float:
    """Write a file, fsync it, rename it, fsync the directory, read it back, remove it: what a checkpoint needs.

    Args:
        directory: Of the checkpoints; made if it is not there.
        name: Of the file, used by nobody else.
        megabytes: How much to write (2^20 bytes each).

    Returns:
        Seconds for all of it.

    Raises:
        StorageError: The volume refused.
        DamagedError: It gave back other bytes.
    """
    make_directory(directory)
    started = time.perf_counter()
    written, path = directory / f"{name}.tmp", directory / name
    block = hashlib.shake_256(name.encode()).digest(BLOCK_BYTES)  # no volume can compress it away
    with storage_errors("write", path):
        try:
            with written.open("wb") as file:
                for _ in range(megabytes):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            written.rename(path)
            sync_directory(directory)
            with path.open("rb") as file:
                _forget_pages(file.fileno())
                same = all(file.read(BLOCK_BYTES) == block for _ in range(megabytes)) and not file.read(1)
        finally:
            for left in (written, path):
                left.unlink(missing_ok=True)
    if not same:
        raise DamagedError(f"{megabytes} MiB written to {directory} read back as something else")
    return time.perf_counter() - started


def _forget_pages(descriptor: int) -> None:
    """Have the bytes come from the volume and not from this machine's memory, where the system can."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class Checks:
    """What a rank computes with: the library that trains brings its own arithmetic and its own network."""

    device: str
    """Where it trains: ``cuda`` or ``cpu``."""
    put: OnDevice | None
    """Puts matrices there; None where the library multiplies none, and the device is not checked."""
    memory: Callable[[], Memory] | None
    """Numbers to copy there; None likewise."""
    buffer: Callable[[], Buffer]
    """Numbers that all ranks sum."""
    gpus: tuple[str, ...] | None = None
    """UUIDs of its GPUs as CUDA tells them; None where the library does not, and all that the pod sees are looked at."""


def preflight(spec: RunSpec, place: Place, link: Link, checks: Checks, control: Control) -> Results | None:
    """Check this node's devices and volume, then with all ranks how they compare, and their network.

    Call on every rank once they are connected.

    Args:
        checks: What this rank computes with.
        control: Numbers between the hosts of all ranks.

    Returns:
        What was measured; None where the run has no preflight. Metrics and one line of the log per node say it too.

    Raises:
        NodeUnhealthyError: A check failed; the message names the node.
        StorageError: The volume refused.
        InvalidRunError: The run has a threshold for something that is not checked here.
    """
    settings = spec.lifecycle.preflight or Preflight()
    if settings.when == "never" or (settings.when == "on-gpus" and checks.device != "cuda"):
        return None
    _refuse_what_is_not_measured(settings, checks)
    began, results, node = time.monotonic(), Results(), _node(place)

    def in_time() -> bool:
        return time.monotonic() - began < settings.budget_seconds

    with _blaming(node):
        _check_devices(settings, place, checks, results, in_time)
        directory = spec.state_directory
        if place.leads_node and in_time() and directory is not None and "://" not in directory:
            name = f"preflight-{place.node}-{os.getpid()}"
            results.storage_seconds = check_storage(Path(directory), name, STORAGE_MEGABYTES[checks.device])
            what = "s to write and read a file on the checkpoint volume"
            at_most(results.storage_seconds, settings.max_storage_seconds, what, "max_storage_seconds")
    if place.world_size > 1 and control.broadcast(in_time()):  # all ranks or none, by rank 0's clock
        with _blaming(node):
            _compare(settings, place, checks, control, results)
        with _blaming("the network between the nodes, as seen from " + node):
            results.bus_bytes_per_second = check_collective(checks.buffer(), place.rank, place.world_size)
            threshold = settings.min_bus_gigabytes_per_second
            at_least(results.bus_bytes_per_second / 1e9, threshold, "GB/s of an all-reduce", "min_bus_gigabytes_per_second")
    _tell(results, place, link, time.monotonic() - began)
    return results


def _refuse_what_is_not_measured(settings: Preflight, checks: Checks) -> None:
    if checks.put is None:
        for key in OF_DEVICES:
            if getattr(settings, key) is not None:
                raise InvalidRunError(f"lifecycle.preflight.{key} is set, and this kind of work checks no GPU; take it out")


def _check_devices(
    settings: Preflight, place: Place, checks: Checks, results: Results, in_time: Callable[[], bool]
) -> None:
    """What this rank finds by itself: what the driver knows, whether numbers are right, and how fast they come."""
    if checks.device == "cuda":
        unasked = check_gpus(checks.gpus)
        if unasked is not None and place.leads_node:
            get_log().info("gpu_health_unknown", reason=unasked)
    if checks.put is not None:
        results.tflops = check_device(checks.put, checks.device)
        at_least(results.tflops, settings.min_tflops, "TFLOP/s", "min_tflops")
    if checks.memory is not None and in_time():
        results.memory_bytes_per_second = check_memory(checks.memory())
        threshold = settings.min_memory_gigabytes_per_second
        at_least(results.memory_bytes_per_second / 1e9, threshold, "GB/s of memory", "min_memory_gigabytes_per_second")


def _compare(settings: Preflight, place: Place, checks: Checks, control: Control, results: Results) -> None:
    """What this rank finds beside the others: whether it is as fast as they are, and what time it is."""
    if results.tflops is not None:
        figures, nodes = control.gather(results.tflops, place), control.gather(place.node, place)
        shares = zip(shares_of_median(figures), nodes, strict=True)
        results.share_of_median = min(share for share, node in shares if node == place.node)
        compare_with_median(figures, place.rank, settings.least_share_of_median(checks.device))
    skews = control.gather(clock_skew(control), place)
    results.clock_skew_seconds = skews[place.rank]
    if place.leads_node and abs(skews[place.rank]) > WARNING_SECONDS:
        get_log().warning("clock_skew", seconds=round(skews[place.rank], 3), reason=WHY)
    if settings.max_clock_skew_seconds is not None:
        compare_clocks(skews, place.rank, settings.max_clock_skew_seconds)


def _node(place: Place) -> str:
    """For the person who is to cordon it: the pod's name leads to the node's."""
    return f"node {place.node} ({os.environ.get('HOSTNAME') or socket.gethostname()})"


@contextmanager
def _blaming(who: str) -> Iterator[None]:
    try:
        yield
    except UnfitError as error:
        raise NodeUnhealthyError(f"{who} is not fit to train: {error}") from None


def _tell(results: Results, place: Place, link: Link, seconds: float) -> None:
    if place.leads_node:
        link.measured(results.metrics())
        facts = {name.removeprefix("trainwright_preflight_"): float(f"{value:.4g}") for name, value in results.metrics().items()}
        get_log().info("preflight", seconds=round(seconds, 2), **facts)
