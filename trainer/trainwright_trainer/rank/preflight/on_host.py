"""What the checks compute with on a host without torch: numpy's matrix product and copies, and an all-reduce of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.preflight.device import MEMORY_MEGABYTES
from trainwright_trainer.rank.preflight.network import MEGABYTES


class HostMatrices:
    """Two matrices in numpy."""

    def __init__(self, left: Array, right: Array) -> None:
        self._left, self._right = left, right

    def product(self) -> Array:
        found: Array = self._left @ self._right
        return found

    def same(self, first: Array, second: Array) -> bool:
        return np.array_equal(first, second)

    def on_host(self, product: Array) -> Array:
        return product


class HostMemory:
    """Two arrays of this host's memory."""

    def __init__(self) -> None:
        self._source: Array = np.ones(MEMORY_MEGABYTES["cpu"] << 17, dtype=np.float64)
        self._target = np.empty_like(self._source)

    @property
    def size(self) -> int:
        return self._source.nbytes

    def copy(self) -> None:
        np.copyto(self._target, self._source)


class HostBuffer:
    """An array of this host's memory. ``reduce_array`` gives its sum over ranks."""

    def __init__(self, reduce_array: Callable[[Array], Array]) -> None:
        self._reduce = reduce_array
        self._values: Array = np.empty(MEGABYTES["cpu"] << 17, dtype=np.float64)
        self._sums = self._values

    @property
    def size(self) -> int:
        return self._values.nbytes

    def fill(self, value: float) -> None:
        self._values.fill(value)

    def sum_over_ranks(self) -> None:
        self._sums = self._reduce(self._values)

    def holds(self, value: float) -> bool:
        return bool((self._sums == value).all())
