"""What a GPU's driver says of it, by a stand-in for nvidia-ml-py: no GPU is needed here, and none was asked."""

# ruff: noqa: N802 - the names are the library's own

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.trainer.supervisor.conftest import specification, training_work

from trainwright_trainer.rank.link import SoloLink
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight import Checks, Control, NodeUnhealthyError, preflight
from trainwright_trainer.rank.preflight.device import HostBuffer, UnfitGPUError, check_gpus

GOOD: dict[str, Any] = {"ecc": 0, "rows": (0, 0, 0, 0), "retiring": 0}
UUID = "1fbc46da-7ba9-4ca7-9d2c-d24ed0f58b56"


class Driver(ModuleType):
    """nvidia-ml-py's module: its functions that we call, its names and its errors, over GPUs that are a table of answers."""

    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_FEATURE_ENABLED = 1, 0, 1

    NVMLError = type("NVMLError", (Exception,), {})
    NVMLError_NotFound = type("NVMLError_NotFound", (NVMLError,), {})
    NVMLError_NotSupported = type("NVMLError_NotSupported", (NVMLError,), {})
    NVMLError_NoPermission = type("NVMLError_NoPermission", (NVMLError,), {})
    NVMLError_FunctionNotFound = type("NVMLError_FunctionNotFound", (NVMLError,), {})
    NVMLError_GpuIsLost = type("NVMLError_GpuIsLost", (NVMLError,), {})
    NVMLError_ResetRequired = type("NVMLError_ResetRequired", (NVMLError,), {})
    NVMLError_LibraryNotFound = type("NVMLError_LibraryNotFound", (NVMLError,), {})

    def __init__(self, *gpus: dict[str, Any], start: Exception | None = None) -> None:
        super().__init__("pynvml")
        self.gpus, self.start, self.open = [GOOD | gpu for gpu in gpus], start, 0

    def nvmlInit(self) -> None:
        if self.start is not None:
            raise self.start
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._said(index, "handle")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        for index, gpu in enumerate(self.gpus):
            if uuid in (gpu.get("uuid"), gpu.get("mig")):
                return -index - 1 if uuid.startswith("MIG-") else index
        raise self.NVMLError_NotFound(uuid)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, slice_of: int) -> int:
        return -slice_of - 1

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        return handle

    def nvmlDeviceGetUUID(self, handle: int) -> Any:
        return self.gpus[handle].get("uuid", f"GPU-{handle}")

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> Any:
        assert (kind, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        return self._said(handle, "ecc")

    def nvmlDeviceGetRemappedRows(self, handle: int) -> Any:
        return self._said(handle, "rows")

    def nvmlDeviceGetRetiredPagesPendingStatus(self, handle: int) -> Any:
        return self._said(handle, "retiring")

    def _said(self, handle: int, question: str) -> Any:
        answer = self.gpus[handle].get(question)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Quiet(SoloLink):
    """Takes no signals."""

    def __init__(self) -> None:
        pass


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(driver: Driver) -> Driver:
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        return driver

    return put


def test_good_gpus(install: Any) -> None:
    driver = install(Driver({}, {}))
    assert check_gpus(None) is None
    assert driver.open == 0


@pytest.mark.parametrize(("answers", "says"), [
    ({"ecc": 2}, r"GPU 1 \(GPU-1\) has had memory errors that ECC could not correct \(2\): cordon the node, and reset the GPU"),
    ({"rows": (0, 1, 1, 0)}, r"GPU 1 \(GPU-1\) waits for a reset to take bad memory out of use: cordon the node, and reset"),
    ({"rows": (0, 8, 0, 1), "ecc": 2}, r"GPU 1 .* has memory that it could not repair .*: .* have the GPU replaced"),
    ({"rows": Driver.NVMLError_NotSupported(), "retiring": 1}, r"GPU 1 \(GPU-1\) waits for a reset"),
    ({"handle": Driver.NVMLError_GpuIsLost("GPU is lost")}, r"GPU 1 does not answer its driver \(GPU is lost\): cordon the node"),
    ({"ecc": Driver.NVMLError_ResetRequired("Reset required")}, r"GPU 1 does not answer its driver \(Reset required\)"),
])
def test_a_gpu_that_is_not_to_be_trained_on(install: Any, answers: dict[str, Any], says: str) -> None:
    driver = install(Driver({}, answers))
    with pytest.raises(UnfitGPUError, match=says):
        check_gpus(None)
    assert driver.open == 0


def test_only_the_ranks_own_gpu_counts(install: Any) -> None:
    """CUDA's UUID of it has no prefix, and is that of the slice where the rank has a slice of a GPU."""
    install(Driver({"ecc": 1}, {"uuid": f"GPU-{UUID}"}))
    assert check_gpus((UUID,)) is None
    install(Driver({}, {"uuid": "GPU-whole", "mig": f"MIG-{UUID}", "ecc": 3}))
    with pytest.raises(UnfitGPUError, match=r"GPU 1 \(GPU-whole\) has had memory errors that ECC could not correct \(3\)"):
        check_gpus((UUID,))


def test_what_nobody_tells_is_no_failure(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    supports_nothing = dict.fromkeys(GOOD, Driver.NVMLError_NotSupported())
    install(Driver(supports_nothing))
    assert check_gpus(None) is None  # a GPU without ECC
    install(Driver(dict.fromkeys(GOOD, Driver.NVMLError_NoPermission("Insufficient Permissions"))))
    assert check_gpus(None) == "NVML does not tell of GPU 0: Insufficient Permissions"
    install(Driver({}))
    assert check_gpus(("unheard-of",)) == "NVML does not tell of GPU unheard-of: MIG-unheard-of"
    install(Driver(start=Driver.NVMLError_LibraryNotFound("NVML Shared Library Not Found")))
    assert check_gpus(None) == "NVML does not start: NVML Shared Library Not Found"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert check_gpus(None) == "the image lacks nvidia-ml-py, the package's extra nvml"


def test_it_ends_with_the_name_of_the_node(install: Any, tmp_path: Path) -> None:
    install(Driver({"ecc": 1}))
    spec = specification(tmp_path, 1, 1, training_work(tmp_path / "state"), "127.0.0.")
    checks = Checks("cuda", None, None, lambda: HostBuffer(lambda values: values))
    with pytest.raises(NodeUnhealthyError, match=r"node 0 \(.+\) is not fit to train: GPU 0 \(GPU-0\) has had memory errors"):
        preflight(spec, Place(0, 1, 0, 0), Quiet(), checks, Control(lambda value: value, list))
