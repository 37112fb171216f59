"""Checks of a node on this machine's CPU, and what becomes of one that fails."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.supervisor.conftest import specification, training_work

from trainwright_trainer.checkpoint import StorageError
from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.rank.link import SoloLink
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight import Checks, Control, NodeUnhealthyError, device, network, preflight
from trainwright_trainer.rank.preflight import checks as storage
from trainwright_trainer.rank.preflight.checks import Results
from trainwright_trainer.rank.preflight.device import HostBuffer, HostMatrices, HostMemory
from trainwright_trainer.rank.preflight.on_torch import TorchBuffer, TorchMatrices, TorchMemory, torch_checks

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured less often than on a node that is to be trusted."""
    monkeypatch.setattr(device, "MOST_PRODUCTS", 3)
    monkeypatch.setattr(device, "COPIES", 2)


class Listener(SoloLink):
    """Takes no signals, and keeps what is measured."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def measured(self, values: Mapping[str, float]) -> None:
        self.values.update(values)


def among(tflops: Sequence[float], nodes: Sequence[int] | None = None, skews: Sequence[float] | None = None) -> Control:
    """Rank 0 among ranks that compute so fast, on nodes of their own and with right clocks unless it is said."""
    others = iter([tflops, nodes or range(10, 10 + len(tflops)), skews or [0.0] * len(tflops)])

    def reduce_sums(values: Sequence[float]) -> list[float]:
        return [values[0], *next(others)] if len(values) > 1 else list(values)

    return Control(lambda value: value, reduce_sums)


def check(
    directory: Path, *, world: int = 1, link: Listener | None = None, control: Control | None = None, **settings: Any
) -> Results | None:
    work = training_work(directory / "state")
    spec = specification(directory, 1, world, work, "127.0.0.", preflight={"when": "always", **settings})
    checks = torch_checks(CPU, lambda tensor: tensor.fill_(world * (world + 1) / 2))
    return preflight(spec, Place(0, world, 0, 3), link or Listener(), checks, control or among([0.1]))


def test_a_good_node(tmp_path: Path) -> None:
    link = Listener()
    results = check(tmp_path, world=2, link=link)
    assert results is not None
    assert results.tflops is not None
    assert results.tflops > 0
    assert results.storage_seconds is not None
    assert results.storage_seconds > 0
    assert results.memory_bytes_per_second is not None
    assert results.memory_bytes_per_second > 1e8
    assert set(link.values) == {name for name in METRICS if name.startswith("trainwright_preflight_")}
    assert list((tmp_path / "state").iterdir()) == []


def test_by_default_only_on_gpus(tmp_path: Path) -> None:
    assert check(tmp_path, when="on-gpus") is None
    assert check(tmp_path, when="never") is None


def test_one_rank_needs_no_network(tmp_path: Path) -> None:
    results = check(tmp_path)
    assert results is not None
    assert results.bus_bytes_per_second is None


def test_a_spent_budget_leaves_checks_out(tmp_path: Path) -> None:
    results = check(tmp_path, world=2, budget_seconds=1e-9)
    assert results is not None
    assert results.metrics().keys() == {"trainwright_preflight_tflops"}


@pytest.mark.parametrize(("settings", "words"), [
    ({"min_tflops": 1e6}, "TFLOP/s, and lifecycle.preflight.min_tflops is 1e+06"),
    ({"max_storage_seconds": 1e-9}, "s to write and read a file on the checkpoint volume, and lifecycle.preflight.max_storage"),
    ({"min_memory_gigabytes_per_second": 1e9}, "GB/s of memory, and lifecycle.preflight.min_memory_gigabytes_per_second is"),
    ({"min_bus_gigabytes_per_second": 1e9}, "GB/s of an all-reduce, and lifecycle.preflight.min_bus_gigabytes_per_second"),
])
def test_a_slow_node(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(NodeUnhealthyError) as caught:
        check(tmp_path, world=2, **settings)
    assert caught.value.exit_code is ExitCode.NODE_UNHEALTHY
    assert words in str(caught.value)
    assert "node 3 (" in str(caught.value)


def test_a_device_that_computes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = TorchMatrices.product

    def broken(matrices: TorchMatrices) -> torch.Tensor:
        """One number is off by one, as on a device with a broken unit."""
        product = right(matrices)
        product[17, 300] += 1
        return product

    monkeypatch.setattr(TorchMatrices, "product", broken)
    with pytest.raises(NodeUnhealthyError, match="1 of 512 rows of a matrix product are wrong"):
        check(tmp_path)


def test_the_numbers_of_the_device_check_are_exact_in_bfloat16() -> None:
    left, right = device.integers(1024)
    assert np.abs(left @ right).max() <= device.LARGEST_EXACT
    assert (left != 0).sum(axis=1).max() == device.LARGEST_EXACT


def test_a_sum_that_is_wrong() -> None:
    for buffer in (TorchBuffer(CPU, lambda tensor: None), HostBuffer(lambda values: values)):
        with pytest.raises(network.WrongSumError, match="a sum over 2 ranks is not 3 everywhere"):
            network.check_collective(buffer, 0, 2)


@pytest.mark.parametrize("numbers", [HostMemory(), TorchMemory(CPU)])
def test_a_copy_counts_each_byte_twice(numbers: HostMemory | TorchMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def copy(_: object) -> None:
        now[0] += 1 + (now[0] == 0)  # the first takes two seconds, the others one

    monkeypatch.setattr(type(numbers), "copy", copy)
    monkeypatch.setattr("trainwright_trainer.rank.preflight.device.time.perf_counter", lambda: now[0])
    assert device.check_memory(numbers) == 2 * numbers.size == 2 * 64 * 2**20


def test_a_rank_slower_than_the_others(tmp_path: Path) -> None:
    """Nobody is asked to be as fast as the others on CPUs, unless the run says so."""
    results = check(tmp_path, world=3, control=among([1e6, 1e6]))
    assert results is not None
    assert results.share_of_median is not None
    assert results.share_of_median < 0.1
    with pytest.raises(NodeUnhealthyError) as caught:
        check(tmp_path, world=3, control=among([1e6, 1e6]), min_share_of_median=0.5)
    assert re.fullmatch(
        r"node 3 \(.*\) is not fit to train: rank 0 computes \S+ TFLOP/s, \S+ of the median of all 3 ranks, and "
        r"lifecycle\.preflight\.min_share_of_median is 0\.5", str(caught.value),
    )
    assert check(tmp_path, world=3, control=among([1e-6, 1e-6]), min_share_of_median=0.9) is not None


def test_the_share_of_a_node_is_that_of_its_slowest_rank(tmp_path: Path) -> None:
    """Its leader, this rank, is the fastest of all."""
    results = check(tmp_path, world=4, control=among([1e-9, 1e-7, 1e-9], nodes=[3, 4, 4]))
    assert results is not None
    assert results.share_of_median == pytest.approx(2e-9 / (1e-9 + 1e-7))


def test_a_clock_that_is_off(tmp_path: Path) -> None:
    """Rank 0's, by which the others are all an hour behind."""
    with pytest.raises(NodeUnhealthyError, match=r"node 3 .*its clock differs from most others' by 3.6e\+03 s or more, and"):
        check(tmp_path, world=3, control=among([1, 1], skews=[-3600, -3600]), max_clock_skew_seconds=2)
    assert check(tmp_path, world=3, control=among([1, 1], skews=[-3600, -3600])) is not None
    assert check(tmp_path, world=3, control=among([1, 1], skews=[-3600, 0]), max_clock_skew_seconds=2) is not None


def test_a_host_without_torch(tmp_path: Path) -> None:
    def summed(values: Array) -> Array:
        found = values * 3
        found.flags.writeable = False  # as TensorFlow gives them
        return found

    checks = Checks("cpu", HostMatrices, HostMemory, lambda: HostBuffer(summed))
    spec = specification(tmp_path, 2, 1, training_work(tmp_path / "state"), "127.0.0.", preflight={"when": "always"})
    results = preflight(spec, Place(0, 2, 0, 0), Listener(), checks, among([1]))
    assert results is not None
    assert results.metrics().pop("trainwright_preflight_clock_skew_seconds") == 0
    assert sum(value > 0 for value in results.metrics().values()) == 5


def test_a_device_that_nobody_can_check(tmp_path: Path) -> None:
    checks = Checks("cuda", None, None, lambda: HostBuffer(lambda values: values))
    spec = specification(tmp_path, 1, 1, training_work(tmp_path / "state"), "127.0.0.")
    results = preflight(spec, Place(0, 1, 0, 0), Listener(), checks, among([]))
    assert results is not None
    assert set(results.metrics()) == {"trainwright_preflight_storage_seconds"}
    for key in ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second"):
        spec = specification(tmp_path, 1, 1, training_work(tmp_path / "state"), "127.0.0.", preflight={key: 0.5})
        with pytest.raises(InvalidRunError, match=rf"lifecycle\.preflight\.{key} is set, and this kind of work checks no GPU"):
            preflight(spec, Place(0, 1, 0, 0), Listener(), checks, among([]))


def test_the_checks_of_a_host_need_no_torch() -> None:
    program = "import sys; sys.modules['torch'] = None; import trainwright_trainer.rank.preflight.device"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_volume_that_gives_back_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damage(descriptor: int) -> None:
        with (tmp_path / "state" / "x").open("r+b") as file:
            file.seek(12345)
            file.write(b"!")

    monkeypatch.setattr(storage, "_forget_pages", damage)
    with pytest.raises(storage.DamagedError, match="2 MiB written to"):
        storage.check_storage(tmp_path / "state", "x", 2)
    assert list((tmp_path / "state").iterdir()) == []


def test_a_volume_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StorageError):
        check(tmp_path)
