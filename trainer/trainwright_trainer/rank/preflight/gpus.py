"""GPU check: what does the driver know of its own hardware?

NVML reads it, through nvidia-ml-py. What its flags ask for: NVIDIA, "GPU Memory Error Management"
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt), and "Dynamic Page Retirement" for GPUs before Ampere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from trainwright_trainer.rank.preflight.failure import UnfitError

_RESET = "cordon the node, and reset the GPU (`nvidia-smi --gpu-reset`) or reboot"
_REPLACE = "cordon the node, and have the GPU replaced"


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
