"""What the loop asks of an engine. Whoever adds one makes it pass the conformance suite in ``tests/trainer/engine``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from trainwright_trainer.task.base import Batch, Task

T = TypeVar("T")

Tensors = Mapping[str, Tensor]
ReadTensors = Callable[[str], dict[str, Tensor]]
"""Gives the tensors of a checkpoint's file by the file's name."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine promises; its conformance suite holds it to this."""

    resumes_at_other_world_sizes: bool
    every_rank_writes_weights: bool
    """False: rank 0 alone holds and writes all of them."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One optimizer step, equal on every rank. Tensors stay on the device: reading one waits for all that is queued there."""

    loss: Tensor
    """Mean over the global batch's items, before the update."""
    gradient_norm: Tensor
    """Global 2-norm before clipping."""
    finite: Callable[[], bool]
    """Whether both are finite. The call waits for this step, and not for what was queued after it."""


class Engine(Protocol):
    """Distributed training of one module. All ranks make the same calls in the same order."""

    capabilities: Capabilities

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""

    def setup(
        self, build_module: Callable[[], nn.Module], build_optimizer: Callable[[nn.Module], torch.optim.Optimizer], task: Task
    ) -> None:
        """Build module and optimizer."""

    def warm_up(self, batch: Batch) -> None:
        """Call once, after :meth:`load` and before anything is computed. Makes every rank start from rank 0's weights.

        Runs a micro batch forward and backward, which changes nothing and finds a lack of memory before the first step.
        """

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        """Add a micro batch's gradients, of its summed loss over ``loss_denominator`` (the global batch's items).

        ``sync`` is true for the last micro batch of a step only; until then gradients stay on their rank.
        """

    def step(self, rate: float) -> StepResult:
        """Clip, update with this learning rate, forget the gradients."""

    def evaluate(self, batch: Batch) -> Tensor:
        """Sums of a batch on this rank, float64 ``(2,)``: loss and items predicted right."""

    def state(self) -> Mapping[str, Tensors]:
        """The files that this rank writes into a checkpoint, with their tensors; possibly none."""

    def load(self, read: ReadTensors) -> None:
        """Take over a checkpoint's state. Raises :class:`InvalidRunError` where it is another model's or optimizer's."""

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        """Sums over ranks of numbers on the host."""

    def broadcast_object(self, value: T) -> T:
        """Rank 0's value, on every rank; also a point that nobody passes before rank 0 reached it."""

    def gather_objects(self, value: T) -> list[T]:
        """All values by rank on rank 0, nothing on the others."""

    def close(self) -> None:
        """Leave the group in order."""
