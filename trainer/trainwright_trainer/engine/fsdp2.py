"""Weights, gradients and optimizer state sharded by torch's ``fully_shard`` (FSDP2), as ZeRO-3 does.

Over all ranks, or, with ``shard_degree``, within groups of ranks that replicate each other: HSDP (Zhao et al. 2023, PyTorch FSDP,
arXiv:2304.11277, section 3.2.2). A group then gathers weights and scatters sums of gradients among its own ranks, and ranks that
hold the same shard sum their shards of gradients once a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from trainwright_trainer.checkpoint import CommittedFiles, Snapshot
from trainwright_trainer.contract.engine import CAPABILITIES, FSDP2
from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.contract.sharding import of_fsdp2
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine import sharded_state
from trainwright_trainer.engine.base import HostMemory, Recipe, StepResult, TensorSnapshot
from trainwright_trainer.engine.forward import COMPUTE, Rank0Buffers, measure, preserving_state
from trainwright_trainer.engine.update import Update, UpdateSettings
from trainwright_trainer.engine.waits import Instant, Waits
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.model.initialise import materialise, skeleton, write
from trainwright_trainer.task.base import Batch


class FSDP2Engine:
    """FSDP2: shards are fp32; a block's weights are gathered in the compute precision when it is their turn.

    Args:
        world: The ranks.
        rules: Of the optimizer's steps.
        gradient_reduction: Data type in which gradients are summed over ranks; default fp32.
        settings: What is gathered again, and what lives on the host.
    """

    capabilities = CAPABILITIES["fsdp2"]

    def __init__(
        self, world: TorchWorld, rules: UpdateSettings, gradient_reduction: Precision | None = None, settings: FSDP2 | None = None
    ) -> None:
        self.world, self._rules = world, rules
        self._reduction: Precision = gradient_reduction or "fp32"
        self._settings = settings or FSDP2()
        try:
            self.layout = of_fsdp2(self._settings, world.place.world_size).layout
        except ValueError as error:
            raise TopologyMismatchError(f"fsdp2.shard_degree does not fit the world that is here: {error}") from error
        self._host_memory = HostMemory()
        self._loss = torch.zeros((), device=world.device)

    def setup(self, recipe: Recipe) -> None:
        self._recipe, self._task = recipe, recipe.task
        self._module = module = skeleton(recipe.build)
        recipe.prepare(module)
        self._shard(module, recipe)
        materialise(module, torch.device("cpu") if self._settings.offload_weights else self.world.device)
        for owner in module.modules():
            for name, buffer in owner.named_buffers(recurse=False):
                setattr(owner, name, buffer.to(self.world.device))
        self._buffers = Rank0Buffers(module.train(), self.world)
        self._optimizer = recipe.optimizer(module)
        self._update = Update(self._optimizer, self._rules)

    def _mesh(self) -> DeviceMesh:
        device, names = self.world.device.type, self.layout._fields
        if self.layout.replicate == 1:
            return init_device_mesh(device, self.layout[1:], mesh_dim_names=names[1:])
        return init_device_mesh(device, tuple(self.layout), mesh_dim_names=names)

    def _shard(self, module: nn.Module, recipe: Recipe) -> None:
        mesh = self._mesh()
        precision = MixedPrecisionPolicy(
            param_dtype=COMPUTE[self._rules.precision], reduce_dtype=COMPUTE[self._reduction],
            # Inputs of blocks inside the model have that precision already; those of the model itself are no activations.
            cast_forward_inputs=True,
        )
        # Pinned memory is what a GPU copies from while it computes. Without a GPU, torch has none to give.
        pinned = self.world.device.type == "cuda"
        offload = CPUOffloadPolicy(pin_memory=pinned) if self._settings.offload_weights else OffloadPolicy()
        for block in recipe.blocks(module):
            fully_shard(
                block, mesh=mesh, reshard_after_forward=self._settings.reshard_after_forward, mp_policy=precision,
                offload_policy=offload,
            )
        self._sharded: FSDPModule = fully_shard(module, mesh=mesh, mp_policy=precision, offload_policy=offload)
        for part in self._parts(module):
            reduce_scatter = TimedReduceScatter(self.world.waits)
            # What they ask for has no public name of torch's.
            part.set_custom_all_gather(TimedAllGather(self.world.waits))  # type: ignore[arg-type]
            part.set_custom_reduce_scatter(reduce_scatter)  # type: ignore[arg-type]
            if self.layout.replicate > 1:
                part.set_all_reduce_hook(reduce_scatter.all_reduced)

    def initialise(self) -> None:
        self._recipe.initialise(self._module, write)

    def load(self, files: CommittedFiles) -> None:
        sharded_state.load(files, self._module, self._optimizer, self._update)

    def warm_up(self, batch: Batch) -> None:
        with preserving_state(self._module, self.world.device):
            self.forward_backward(batch, loss_denominator=1.0, sync=True)
        self._optimizer.zero_grad()
        self._loss.zero_()

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._module.training:
            self._module.train()
        self._sharded.set_is_last_backward(sync)
        # Sums of the micro batches before the last lie beside the gradients, in the precision in which gradients are reduced.
        self._sharded.set_requires_all_reduce(sync or self._reduction != "fp32")
        loss = measure(self._task, self._module, batch, self.world.device).loss / loss_denominator
        # Gradients are averaged over readers; their number turns the mean back into the sum that the denominator asks for.
        (loss * (self.layout.readers * self._update.scale)).backward()  # type: ignore[no-untyped-call]
        self._loss += loss.detach()
        self._buffers.changed()

    def step(self, rate: float) -> StepResult:
        gradients = [local(parameter.grad) for parameter in self._module.parameters() if parameter.grad is not None]
        loss = self._loss.clone()
        squared = nn.utils.get_total_norm(gradients).to(self.world.device).square()
        sums = torch.stack([loss, squared / self.layout.replicate])  # each shard counts once
        self.world.all_reduce(sums)
        self._loss.zero_()
        return self._update.apply(sums[0], sums[1].sqrt(), gradients, rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Tensor:
        self._buffers.synchronize()
        if self._module.training:
            self._module.eval()
        measured = measure(self._task, self._module, batch, self.world.device)
        return torch.stack([measured.loss.double(), measured.correct.double()])

    def snapshot(self) -> Snapshot:
        self._buffers.synchronize()
        self._let_go()
        place = self.world.place
        state = sharded_state.files(self._module, self._optimizer, self._update, place, self.layout.written(place.rank))
        return TensorSnapshot(state, self._host_memory)

    def _let_go(self) -> None:
        """Make the module's parameters this rank's shards again.

        A backward pass ends so, and a forward pass alone does not: after an evaluation the outermost parameters, and all of them
        with ``reshard_after_forward`` off, would still be whole ones, whose memory is freed as soon as anybody asks for shards.
        """
        for part in self._parts(self._module):
            part.reshard()

    @staticmethod
    def _parts(module: nn.Module) -> Iterator[FSDPModule]:
        """The blocks, and what is left of the model."""
        return (part for part in module.modules() if isinstance(part, FSDPModule))


class _OfTorch:
    """Memory as torch's own collectives of FSDP2 take it."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class TimedAllGather(_OfTorch):
    """Gathers weights, and takes note of how long that takes."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        with self._waits.waiting():
            work = dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        return cast("dist.Work | None", work)


class TimedReduceScatter(_OfTorch):
    """Sums gradients and scatters the sums, and takes note of how long that takes, with a sum over groups that follows."""

    def __init__(self, waits: Waits) -> None:
        super().__init__(waits)
        self._scattered: Instant | None = None

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> dist.Work | None:
        with self._waits.waiting():
            work = dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
        self._scattered = self._waits.begin()
        return cast("dist.Work | None", work)

    def all_reduced(self, shards: Tensor) -> None:
        """torch calls this when the sum over groups has been made, or is queued, in the stream where that happens."""
        self._waits.end(self._scattered)


def local(tensor: Tensor) -> Tensor:
    """This rank's shard."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
