"""What the checks compute with where torch trains: its own matrix product and copies, and the engine's all-reduce."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.preflight.checks import Checks
from trainwright_trainer.rank.preflight.device import MEMORY_MEGABYTES
from trainwright_trainer.rank.preflight.network import MEGABYTES

AllReduce = Callable[[Tensor], object]
"""Sums a tensor over all ranks, in place."""


def torch_checks(device: torch.device, all_reduce: AllReduce) -> Checks:
    """For a rank that computes on ``device``, where ``all_reduce`` takes its tensors."""
    return Checks(
        device.type, partial(TorchMatrices, device), partial(TorchMemory, device), partial(TorchBuffer, device, all_reduce),
        # Not by an index: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER make CUDA's another than the driver's.
        gpus=(str(torch.cuda.get_device_properties(device).uuid),) if device.type == "cuda" else (),
    )


class TorchMatrices:
    """Two matrices in torch."""

    def __init__(self, device: torch.device, left: Array, right: Array) -> None:
        kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._device = device
        self._left, self._right = (torch.from_numpy(matrix).to(device, kind) for matrix in (left, right))

    def product(self) -> Tensor:
        found = self._left @ self._right
        _synchronize(self._device)
        return found

    def same(self, first: Tensor, second: Tensor) -> bool:
        return torch.equal(first, second)

    def on_host(self, product: Tensor) -> Array:
        array: Array = product.cpu().float().numpy()
        return array


class TorchMemory:
    """Two tensors on a device."""

    def __init__(self, device: torch.device) -> None:
        elements = MEMORY_MEGABYTES.get(device.type, MEMORY_MEGABYTES["cpu"]) << 18  # of four bytes
        self._device, self._source = device, torch.ones(elements, dtype=torch.float32, device=device)
        self._target = torch.empty_like(self._source)

    @property
    def size(self) -> int:
        return self._source.nbytes

    def copy(self) -> None:
        self._target.copy_(self._source)
        _synchronize(self._device)


class TorchBuffer:
    """A tensor that an engine sums."""

    def __init__(self, device: torch.device, all_reduce: AllReduce) -> None:
        self._device, self._all_reduce = device, all_reduce
        elements = MEGABYTES.get(device.type, MEGABYTES["cpu"]) << 18  # of four bytes
        self._values = torch.empty(elements, dtype=torch.float32, device=device)

    @property
    def size(self) -> int:
        return self._values.nbytes

    def fill(self, value: float) -> None:
        self._values.fill_(value)
        _synchronize(self._device)

    def sum_over_ranks(self) -> None:
        self._all_reduce(self._values)
        _synchronize(self._device)

    def holds(self, value: float) -> bool:
        return bool((self._values == value).all())


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
