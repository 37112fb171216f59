"""How a topology spreads the model states over its ranks: what the estimates of memory and communication read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShardingEngine = Literal["deepspeed", "fsdp2"]
GradientType = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class Sharding:
    """Ranks that share one copy of each part of the model states; 1 where every rank holds all of it.

    With an engine, sizes are in elements (parameters), as DeepSpeed counts them.
    """

    stage: Literal[0, 1, 2, 3] = 0
    """Of ZeRO: 3 shares weights, gradients and optimizer state, 2 the last two, 1 the last, 0 nothing."""
    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    engine: ShardingEngine | None = None
    """What shards, and so decides the precision of each part; None where every rank holds everything."""
    offload_optimizer: bool = False
    """Whether master weights, optimizer state and their gradients lie in the host's memory, where the optimizer steps."""
    offload_weights: bool = False
    """Whether the shards of the weights lie in the host's memory too."""
    reshards: bool = True
    """Whether gathered weights are let go after the forward pass and gathered again for the backward pass."""
    accumulated_in: GradientType | None = None
    """Type in which DeepSpeed adds up gradients; None leaves it to :meth:`accumulates`."""
    buckets: int = 0
    """Buffers in which DeepSpeed reduces gradients: two where one fills while the other travels."""
    bucket: int = 0
    """Size of one."""
    persistent: int = 0
    """Weights of at most so many elements stay whole on every rank."""
    live: int = 0
    """Gathered weights that may be kept, or fetched ahead of their use."""
    sub_group: int = 0
    """Weights that the optimizer steps at a time."""

    def accumulates(self, precision: GradientType, accumulation: int) -> GradientType:
        """Type in which gradients are added up: fp32 where more than one is added in bf16, whose 8 bits lose small ones."""
        if self.accumulated_in:
            return self.accumulated_in
        return "fp32" if precision == "bf16" and accumulation > 1 else precision
