"""Checks of a device: does it compute right, how fast are it and its memory, and what does its driver know of its health?

On a host without torch they compute with numpy's matrix product and copies, and with an all-reduce of arrays.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.preflight.fitness import UnfitError
from trainwright_trainer.rank.preflight.network import MEGABYTES

SIZES = {"cuda": 4096, "cpu": 512}
"""Rows of the square matrices: large enough to keep a GPU busy, small enough to be checked on the host in a moment."""
LARGEST_EXACT = 256
"""Integers up to there are exact in bfloat16, which has 8 significant bits."""
MOST_SECONDS = 2.0
MOST_PRODUCTS = 50
_RESET = "cordon the node, and reset the GPU (`nvidia-smi --gpu-reset`) or reboot"
_REPLACE = "cordon the node, and have the GPU replaced"
MEMORY_MEGABYTES = {"cuda": 512, "cpu": 64}
"""Of 2^20 bytes: well beyond a GPU's caches. A large server's hold more than that, and then the figure is in part theirs."""
COPIES = 10


class Matrices(Protocol):
    """Two matrices on a device: in bfloat16 on a GPU, in float32 on a CPU."""

    def product(self) -> Any:
        """Multiply them, and wait until that is done."""

    def same(self, first: Any, second: Any) -> bool:
        """Whether two products have the same numbers."""

    def on_host(self, product: Any) -> Array:
        """Its numbers as float32."""


OnDevice = Callable[[Array, Array], Matrices]
"""Puts two matrices, float32 with small integers, on a device."""


class WrongNumbersError(UnfitError):
    """The device computed something that is not so."""


def check_device(put: OnDevice, device: str) -> float:
    """Multiply matrices of small integers until a second or two have passed.

    The product is right if (A B) x = A (B x), computed in integers on the host (Freivalds), and if every repetition gives the
    same bits.

    Args:
        put: Puts matrices on the device.
        device: Of which kind it is, ``cuda`` or ``cpu``.

    Returns:
        10^12 floating point operations per second, of the fastest product: 2 n^3 operations each.

    Raises:
        WrongNumbersError: A product is not right.
    """
    size = SIZES.get(device, SIZES["cpu"])
    left, right = integers(size)
    matrices = put(left, right)
    product = matrices.product()
    _verify(left, right, matrices.on_host(product))
    fastest, began = float("inf"), time.monotonic()
    for _ in range(MOST_PRODUCTS):
        started = time.perf_counter()
        again = matrices.product()
        fastest = min(fastest, max(time.perf_counter() - started, 1e-9))
        if not matrices.same(again, product):
            raise WrongNumbersError("the same matrix product gave other numbers the second time")
        if time.monotonic() - began > MOST_SECONDS:
            break
    return 2 * size**3 / fastest / 1e12


def integers(size: int) -> tuple[Array, Array]:
    """Matrices of -1, 0 and 1. A row of the first has so few that no sum leaves the integers that are exact."""
    random, place = np.random.default_rng(0), np.arange(size)
    left, right = (random.integers(0, 2, (size, size), dtype=np.int8) * 2 - 1 for _ in range(2))
    left *= (place[:, None] + place) % (size // LARGEST_EXACT) == 0
    return left.astype(np.float32), right.astype(np.float32)


def _verify(left: Array, right: Array, product: Array) -> None:
    # Of -3, -1, 1 and 3: a zero would hide what is wrong in its column. No sum of these integers leaves what float32 holds
    # exactly, 2^24, in whatever order they are added.
    vector = (np.random.default_rng(1).integers(0, 4, len(right)) * 2 - 3).astype(np.float32)
    found, expected = product @ vector, left @ (right @ vector)
    wrong = int((found != expected).sum())
    if wrong:
        raise WrongNumbersError(f"{wrong} of {len(found)} rows of a matrix product are wrong")


class Memory(Protocol):
    """Numbers in the memory of a device."""

    @property
    def size(self) -> int:
        """In bytes."""

    def copy(self) -> None:
        """Read all of them, write as many elsewhere in the same memory, and wait until that is done."""


def check_memory(memory: Memory) -> float:
    """Copy a few times.

    Returns:
        Bytes per second of the fastest copy. Each byte counts twice, as read and as written (STREAM, "copy").
    """
    fastest = float("inf")
    for repetition in range(COPIES + 1):
        started = time.perf_counter()
        memory.copy()
        if repetition > 0:  # the first takes the memory
            fastest = min(fastest, time.perf_counter() - started)
    return 2 * memory.size / max(fastest, 1e-9)


class UnfitGPUError(UnfitError):
    """A GPU is broken, or waits for a repair."""


def check_gpus(uuids: Sequence[str] | None) -> str | None:
    """Ask the driver for memory errors and repairs of GPUs.

    Args:
        uuids: Of the GPUs, as CUDA tells them, without a prefix. None: all that this pod sees.

    Returns:
        What could not be asked, and why; None if all was. A GPU that does not count errors has nothing to say.

    Raises:
        UnfitGPUError: One is not to be trained on; the message names it and says what to do.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return "the image lacks nvidia-ml-py, the package's extra nvml"
    try:
        nvml.nvmlInit()
        gpus: Sequence[int | str] = range(nvml.nvmlDeviceGetCount()) if uuids is None else uuids
    except nvml.NVMLError as error:
        return f"NVML does not start: {error}"
    try:
        unasked = [reason for gpu in gpus for reason in _Questions(nvml, gpu).ask()]
    finally:
        nvml.nvmlShutdown()
    return "; ".join(dict.fromkeys(unasked)) or None


class _Questions:
    """To the driver, about one GPU. ``gpu`` is its index there, or its UUID."""

    def __init__(self, nvml: Any, gpu: int | str) -> None:
        self._nvml, self._gpu = nvml, gpu
        self._unasked: list[str] = []

    def ask(self) -> list[str]:
        """What got no answer, and why. Raises :class:`UnfitGPUError`."""
        nvml = self._nvml
        handle = self._answer(self._handle)
        if handle is None:
            return self._unasked
        index, uuid = (self._answer(partial(ask, handle)) for ask in (nvml.nvmlDeviceGetIndex, nvml.nvmlDeviceGetUUID))
        found = f"GPU {index} ({uuid})"
        # Since the driver was loaded or the GPU reset, and the reset is what they ask for.
        kind = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        errors = self._answer(partial(nvml.nvmlDeviceGetTotalEccErrors, handle, *kind))
        *_, pending, failed = self._answer(partial(nvml.nvmlDeviceGetRemappedRows, handle)) or (0, 0)
        retiring = self._answer(partial(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)) == nvml.NVML_FEATURE_ENABLED
        if failed:
            raise UnfitGPUError(f"{found} has memory that it could not repair (row remapping failed): {_REPLACE}")
        if errors:
            raise UnfitGPUError(f"{found} has had memory errors that ECC could not correct ({errors}): {_RESET}")
        if pending or retiring:
            raise UnfitGPUError(f"{found} waits for a reset to take bad memory out of use: {_RESET}")
        return self._unasked

    def _handle(self) -> Any:
        """Of the GPU itself where the rank has a slice of one: the memory and its repairs are the whole GPU's."""
        nvml, gpu = self._nvml, self._gpu
        if isinstance(gpu, int):
            return nvml.nvmlDeviceGetHandleByIndex(gpu)
        try:
            return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{gpu}")
        except nvml.NVMLError_NotFound:
            return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.nvmlDeviceGetHandleByUUID(f"MIG-{gpu}"))

    def _answer(self, question: Callable[[], Any]) -> Any:
        """None where this GPU or this driver has none."""
        nvml = self._nvml
        try:
            return question()
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired) as error:
            raise UnfitGPUError(f"GPU {self._gpu} does not answer its driver ({error}): {_RESET}") from None
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            return None
        except nvml.NVMLError as error:
            self._unasked.append(f"NVML does not tell of GPU {self._gpu}: {error}")
            return None


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
