"""What engines do alike around a forward pass, and the buffers that it changes on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine.whole_state import persistent_buffers
from trainwright_trainer.engine.world import World
from trainwright_trainer.task.base import Batch, Measurement, Task

COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Precision -> torch's data type."""


def measure(task: Task, module: nn.Module, batch: Batch, device: torch.device) -> Measurement:
    """One forward pass on the device."""
    return task.measure(module, {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()})


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Forward passes below compute in ``precision``, from weights that stay fp32."""
    return torch.autocast(device.type, COMPUTE[precision], enabled=precision != "fp32")


@contextmanager
def preserving_state(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Passes below leave buffers, such as the statistics of batch norm, and random numbers as they were. Gradients stay."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    for name, buffer in module.named_buffers():
        buffer.copy_(buffers[name])


class Rank0Buffers:
    """Batch norm counts what its own rank saw; rank 0's statistics are the model's, as they are under DDP."""

    def __init__(self, module: nn.Module, world: World) -> None:
        self._module, self._world = module, world
        self._differ = False

    def changed(self) -> None:
        """This rank trained on samples of its own."""
        self._differ = True

    def synchronize(self) -> None:
        """Give every rank those of rank 0, before anything is evaluated or saved."""
        if self._differ:
            for _, buffer in persistent_buffers(self._module):
                self._world.broadcast(buffer)
        self._differ = False
