"""Buffers that each rank changes by itself, and of which the model has one."""

from __future__ import annotations

from torch import nn

from trainwright_trainer.engine.whole_state import persistent_buffers
from trainwright_trainer.engine.world import World


class Rank0Buffers:
    """Batch norm counts what its own rank saw; rank 0's statistics are the model's, as they are under DDP."""

    def __init__(self, module: nn.Module, world: World) -> None:
        self._module, self._world = module, world
        self._differ = False

    def changed(self) -> None:
        """This rank trained on samples of its own."""
        self._differ = True

    def take(self) -> None:
        """Have those of rank 0 on every rank, before anybody evaluates or saves."""
        if self._differ:
            for _, buffer in persistent_buffers(self._module):
                self._world.broadcast(buffer)
        self._differ = False
