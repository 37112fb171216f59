"""Snapshot of an engine whose state is tensors: one safetensors file for each group of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from trainwright_trainer.checkpoint import Draft, FileDigest, tensor_file
from trainwright_trainer.engine.base import Tensors


class TensorSnapshot:
    """Live tensors, until they are held."""

    def __init__(self, files: Mapping[str, Tensors]) -> None:
        self._files = files

    def hold(self) -> None:
        """Copy to the host, all tensors of a GPU at once, and wait for it."""
        live = list(self._files.values())
        self._files = {name: {key: _copy(tensor) for key, tensor in tensors.items()} for name, tensors in self._files.items()}
        for device in {tensor.device for tensors in live for tensor in tensors.values() if tensor.is_cuda}:
            torch.cuda.current_stream(device).synchronize()

    def write(self, draft: Draft) -> list[FileDigest]:
        return [draft.write(name, tensor_file.encode(tensors)) for name, tensors in self._files.items()]


def _copy(tensor: Tensor) -> Tensor:
    # Pinned memory takes the copy at the full speed of the bus; torch's allocator keeps the blocks for the next snapshot.
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)
    return copy.copy_(tensor.detach(), non_blocking=True)
