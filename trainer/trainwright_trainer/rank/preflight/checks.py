"""Preflight: the checks of a node, within a budget, and what becomes of a node that fails one. No torch in here."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.contract import spec as contract
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight.clocks import WARNING_SECONDS, WHY, clock_skew, compare_clocks
from trainwright_trainer.rank.preflight.collective import Buffer, check_collective
from trainwright_trainer.rank.preflight.control import Control
from trainwright_trainer.rank.preflight.device import OnDevice, check_device
from trainwright_trainer.rank.preflight.failure import NodeUnhealthyError, UnfitError
from trainwright_trainer.rank.preflight.gpus import check_gpus
from trainwright_trainer.rank.preflight.memory import Memory, check_memory
from trainwright_trainer.rank.preflight.results import Results
from trainwright_trainer.rank.preflight.share import compare_with_median, shares_of_median
from trainwright_trainer.rank.preflight.storage import check_storage
from trainwright_trainer.rank.preflight.thresholds import at_least, at_most

STORAGE_MEGABYTES = {"cuda": 64, "cpu": 4}
OF_DEVICES = ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second")
"""Thresholds for what a library without arithmetic of its own cannot measure."""


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
    settings = spec.lifecycle.preflight or contract.Preflight()
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


def _refuse_what_is_not_measured(settings: contract.Preflight, checks: Checks) -> None:
    if checks.put is None:
        for key in OF_DEVICES:
            if getattr(settings, key) is not None:
                raise InvalidRunError(f"lifecycle.preflight.{key} is set, and this kind of work checks no GPU; take it out")


def _check_devices(
    settings: contract.Preflight, place: Place, checks: Checks, results: Results, in_time: Callable[[], bool]
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


def _compare(settings: contract.Preflight, place: Place, checks: Checks, control: Control, results: Results) -> None:
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
