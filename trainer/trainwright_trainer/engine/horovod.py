"""Data parallelism by Horovod: every rank holds the whole model, and ranks meet over MPI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.failures import InvalidRunError, TopologyMismatchError
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine.base import StepResult
from trainwright_trainer.engine.ddp import ReplicatedEngine
from trainwright_trainer.engine.forward import autocast, measure, preserving_state
from trainwright_trainer.engine.update import UpdateSettings
from trainwright_trainer.engine.waits import Waits
from trainwright_trainer.rank.place import Place
from trainwright_trainer.task.base import Batch

T = TypeVar("T")
_FUSION_ENV = "HOROVOD_FUSION_THRESHOLD"
"""Bytes of the buffer in which Horovod sums several tensors at once; with 0 it sums each by itself."""


class HorovodGroup:
    """Words between ranks under names of its own: Horovod pairs operations by name, so groups may be used by several threads."""

    def __init__(self, horovod: Any, place: Place, name: str) -> None:
        self._horovod, self._place, self._name = horovod, place, name

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        summed = self._horovod.allreduce(tensor, op=self._horovod.Sum, name=f"{self._name}.sums")
        return [float(value) for value in summed]

    def broadcast(self, value: T) -> T:
        received: T = self._horovod.broadcast_object(value, root_rank=0, name=f"{self._name}.told")
        return received

    def gather(self, value: T) -> list[T]:
        gathered: list[T] = self._horovod.allgather_object(value, name=f"{self._name}.gathered")
        return gathered if self._place.leads else []


class HorovodWorld:
    """The ranks that mpirun started.

    Raises:
        InvalidRunError: Horovod is not in this image.
        TopologyMismatchError: It counts ranks otherwise than the run does.
    """

    def __init__(self, place: Place, device: torch.device) -> None:
        try:
            import horovod.torch as horovod
        except ImportError as error:
            raise InvalidRunError(
                f"engine horovod needs Horovod, which this image lacks ({error}); use an image built with it, or topology ddp"
            ) from error
        self.place, self.device, self.horovod, self.waits = place, device, horovod, Waits(device)
        if device.type == "cpu":
            # Tensors that happen to be ready together would be summed as one buffer, in an order that follows from their places
            # there, and with three ranks or more a resume would not have the bits of an uninterrupted run.
            os.environ.setdefault(_FUSION_ENV, "0")
        horovod.init()
        if (horovod.rank(), horovod.size()) != (place.rank, place.world_size):
            raise TopologyMismatchError(
                f"Horovod says rank {horovod.rank()} of {horovod.size()}, and the environment rank {place.rank} of "
                f"{place.world_size}: start the ranks by the run's own mpirun command"
            )
        self.control = HorovodGroup(horovod, place, "control")
        self._groups = 0

    def new_group(self) -> HorovodGroup:
        self._groups += 1
        return HorovodGroup(self.horovod, self.place, f"group-{self._groups}")

    def all_reduce(self, tensor: Tensor) -> None:
        with self.waits.waiting():
            self.horovod.allreduce_(tensor, op=self.horovod.Sum, name="sum")

    def broadcast(self, tensor: Tensor) -> None:
        self.horovod.broadcast_(tensor, root_rank=0, name="rank-0s")

    def close(self) -> None:
        self.horovod.shutdown()


class HorovodEngine(ReplicatedEngine[HorovodWorld]):
    """Horovod sums gradients while the backward pass goes on; torch's optimizer steps. bf16 and fp16 autocast the forward pass.

    Args:
        world: The ranks.
        rules: Of the optimizer's steps.
        gradient_reduction: Data type in which gradients are summed over ranks, fp32 or fp16; default fp32.
        accumulation: Micro batches of a step.
    """

    capabilities = CAPABILITIES["horovod"]

    def __init__(
        self, world: HorovodWorld, rules: UpdateSettings, gradient_reduction: Precision | None, accumulation: int
    ) -> None:
        super().__init__(world, rules)
        self._accumulation = accumulation
        compression = world.horovod.Compression
        self._compression = compression.fp16 if gradient_reduction == "fp16" else compression.none

    def warm_up(self, batch: Batch) -> None:
        self.world.horovod.broadcast_parameters(self._module.state_dict(), root_rank=0)
        with preserving_state(self._module, self.world.device):
            with autocast(self.world.device, self._rules.precision):
                loss = measure(self._task, self._module, batch, self.world.device).loss
            loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.zero_grad()
        # Only its hooks are used, which sum a gradient when its last micro batch is done: clipping and the step are ours.
        self._hooks = self.world.horovod.DistributedOptimizer(
            self._optimizer, named_parameters=self._module.named_parameters(), op=self.world.horovod.Sum,
            compression=self._compression, backward_passes_per_step=self._accumulation,
        )

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._module.training:
            self._module.train()
        with autocast(self.world.device, self._rules.precision):
            loss = measure(self._task, self._module, batch, self.world.device).loss / loss_denominator
        (loss * self._update.scale).backward()  # type: ignore[no-untyped-call]
        self._loss += loss.detach()
        self._buffers.changed()

    def step(self, rate: float) -> StepResult:
        with self.world.waits.waiting():
            self._hooks.synchronize()
        return super().step(rate)
