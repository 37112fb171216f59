from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from trainwright_trainer.checkpoint import StorageError, UnknownSchemaError
from trainwright_trainer.contract import failures
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.rank.ending import cause_of, code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (failures.InvalidRunError("x"), ExitCode.INVALID_SPEC),
        (failures.TopologyMismatchError("x"), ExitCode.TOPOLOGY_MISMATCH),
        (failures.DataError("x"), ExitCode.DATA_CHANGED),
        (failures.NoCheckpointError("x"), ExitCode.NO_CHECKPOINT),
        (failures.DivergedError("x"), ExitCode.DIVERGED),
        (StorageError("write", Path("/x"), "full", "grow it"), ExitCode.STORAGE),
        (UnknownSchemaError("x"), ExitCode.INVALID_SPEC),
        (torch.OutOfMemoryError("CUDA out of memory"), ExitCode.OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), ExitCode.OUT_OF_MEMORY),
        (MemoryError(), ExitCode.OUT_OF_MEMORY),
        (dist.DistBackendError("NCCL communicator was aborted"), ExitCode.PEER_LOST),
        (dist.DistBackendError("NCCL error in: x.cpp:94, remote\nncclRemoteError: a call failed"), ExitCode.PEER_LOST),
        (dist.DistBackendError("NCCL error in: x.cpp:94, invalid usage\nncclInvalidUsage: Duplicate GPU"), ExitCode.INTERNAL),
        (dist.DistBackendError("ncclUnhandledCudaError: Cuda failure 'out of memory'"), ExitCode.OUT_OF_MEMORY),
        (dist.DistNetworkError("The client socket has timed out"), ExitCode.PEER_LOST),
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1"), ExitCode.PEER_LOST),
        (ConnectionResetError(errno.ECONNRESET, "reset"), ExitCode.PEER_LOST),
        (dist.DistNetworkError("Failed to recv, got 0 bytes. Connection was likely closed."), ExitCode.PEER_LOST),
        (dist.DistStoreError("wait timeout after 300000ms, keys: /worker_count"), ExitCode.PEER_LOST),
        (dist.DistNetworkError("The server socket has failed to listen. EADDRINUSE, message: address already in use"),
         ExitCode.INTERNAL),
        (dist.DistNetworkError("Invalid socket option"), ExitCode.INTERNAL),
        (RuntimeError("[enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: eth9"), ExitCode.INTERNAL),
        (failures.OutOfMemoryLaterError("x"), ExitCode.OUT_OF_MEMORY_LATER),
        (RuntimeError("shape mismatch"), ExitCode.INTERNAL),
        (KeyboardInterrupt(), ExitCode.INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_codes(error: BaseException, code: ExitCode) -> None:
    assert code_of(error) is code


def test_cause_is_one_line() -> None:
    cause = cause_of(RuntimeError("first\nsecond\n"), 3)
    assert cause.model_dump() == {"rank": 3, "kind": "RuntimeError", "message": "RuntimeError: first"}
    assert cause_of(failures.DataError("gone"), None).message == "gone"
    assert cause_of(OSError("/data/\udcff"), 0).model_dump_json()
    assert len(cause_of(RuntimeError("long " * 10_000), 0).message) < 2100
    assert cause_of(KeyError(), 0).message == "KeyError: no message"
