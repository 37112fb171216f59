"""What training asks of an engine. Each one passes the conformance suite in ``tests/trainer/training``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from trainwright_trainer.checkpoint import CommittedFiles, Draft, FileDigest, Snapshot, tensor_file
from trainwright_trainer.contract.engine import Capabilities
from trainwright_trainer.contract.sharding import Layout
from trainwright_trainer.engine.world import World
from trainwright_trainer.model.initialise import Store
from trainwright_trainer.task.base import Batch, Task

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make what is trained. An engine decides where parameters live, in between."""

    build: Callable[[], nn.Module]
    """The module as its class builds it; :func:`model.initialise.skeleton` keeps it from filling the host's memory."""
    prepare: Callable[[nn.Module], None]
    """Makes its blocks recompute or compile what the run asks for; before blocks are sharded."""
    initialise: Callable[[nn.Module, Store], None]
    """Gives every parameter its first value, the same under every engine and at every world size."""
    blocks: Callable[[nn.Module], Iterable[nn.Module]]
    """The repeated layers, in the order of the forward pass: the units in which weights are sharded."""
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    task: Task


@dataclass(frozen=True, slots=True)
class StepResult:
    """One optimizer step, equal on every rank. Tensors stay on the device: reading one waits for all that is queued there."""

    loss: Tensor
    """Mean over the global batch's items, before the update."""
    gradient_norm: Tensor
    """Global 2-norm before clipping."""
    finite: Callable[[], bool]
    """Whether both are finite, or the step was left out because they are not, as the run allows. The call waits for this step,
    and not for what was queued after it."""


class Engine(Protocol):
    """Distributed training of one module. All ranks make the same calls in the same order."""

    capabilities: Capabilities

    @property
    def world(self) -> World:
        """The ranks that it connects. Closing it is the last thing that is done."""

    @property
    def layout(self) -> Layout:
        """Which of them replicate, share, read and write what."""

    def setup(self, recipe: Recipe) -> None:
        """Build module and optimizer. Their values come from :meth:`load` or :meth:`initialise`."""

    def initialise(self) -> None:
        """Give the weights their first values."""

    def load(self, files: CommittedFiles) -> None:
        """Take over a checkpoint's state, before :meth:`warm_up`.

        Raises :class:`InvalidRunError` where it is another model's or optimizer's.
        """

    def warm_up(self, batch: Batch) -> None:
        """Call once, before anything is computed. Makes every rank start from rank 0's weights.

        Runs a micro batch forward and backward, which changes nothing and finds a lack of memory before the first step.
        """

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        """Add a micro batch's gradients, of its summed loss over ``loss_denominator`` (the global batch's items).

        ``sync`` is true for the last micro batch of a step only.
        """

    def step(self, rate: float) -> StepResult:
        """Clip, update with this learning rate, forget the gradients."""

    def evaluate(self, batch: Batch) -> Tensor:
        """Sums of a batch on this rank, float64 ``(2,)``: loss and items predicted right."""

    def snapshot(self) -> Snapshot:
        """The state now, valid until the next call of this engine unless it is held; then until the next one is held."""


class HostMemory:
    """Where copies of an engine's state lie, the same places from save to save.

    Finding memory takes longer than copying: the kernel clears each page when it is touched first, and pins it for a GPU.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Tensor] = {}

    def place(self, file: str, key: str, tensor: Tensor) -> Tensor:
        """Where this tensor of this file has its copy."""
        place = self._places.get((file, key))
        if place is None or place.shape != tensor.shape or place.dtype != tensor.dtype:
            # Pinned memory takes the copy at the full speed of the bus.
            place = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)
            self._places[file, key] = place
        return place


class TensorSnapshot:
    """Live tensors, until they are held. ``memory`` is for one snapshot at a time; default: its own."""

    def __init__(self, files: Mapping[str, Tensors], memory: HostMemory | None = None) -> None:
        self._files, self._memory = files, memory or HostMemory()

    def reserve(self) -> None:
        for name, tensors in self._files.items():
            for key, tensor in tensors.items():
                self._memory.place(name, key, tensor).zero_()

    def hold(self) -> None:
        """Copy to the host, all tensors of a GPU at once, and wait for it."""
        live = list(self._files.values())
        self._files = {
            name: {
                key: self._memory.place(name, key, tensor).copy_(tensor.detach(), non_blocking=True)
                for key, tensor in tensors.items()
            }
            for name, tensors in self._files.items()
        }
        for device in {tensor.device for tensors in live for tensor in tensors.values() if tensor.is_cuda}:
            torch.cuda.current_stream(device).synchronize()

    def write(self, draft: Draft) -> list[FileDigest]:
        return [draft.write(name, tensor_file.encode(tensors)) for name, tensors in self._files.items()]
