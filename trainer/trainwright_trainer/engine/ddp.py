"""Data parallelism by ``torch.nn.parallel.DistributedDataParallel``: every rank holds the whole model.

:class:`ReplicatedEngine` is what such engines have in common: module, optimizer, state and update.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from trainwright_trainer.checkpoint import CommittedFiles, Snapshot
from trainwright_trainer.contract.engine import CAPABILITIES, DDPSettings
from trainwright_trainer.contract.sharding import Layout
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine import whole_state
from trainwright_trainer.engine.base import HostMemory, Recipe, StepResult, TensorSnapshot
from trainwright_trainer.engine.forward import Rank0Buffers, autocast, measure, preserving_state
from trainwright_trainer.engine.update import Update, UpdateSettings
from trainwright_trainer.engine.waits import Instant
from trainwright_trainer.engine.world import TorchWorld, World
from trainwright_trainer.model.initialise import materialise, skeleton, write
from trainwright_trainer.task.base import Batch

AnyWorld = TypeVar("AnyWorld", bound=World)


class ReplicatedEngine(Generic[AnyWorld]):
    """Base of DDP and Horovod, which differ in who sums the gradients, and when.

    Args:
        world: The ranks.
        rules: Of the optimizer's steps.
    """

    def __init__(self, world: AnyWorld, rules: UpdateSettings) -> None:
        self.world, self._rules = world, rules
        self.layout = Layout(replicate=world.place.world_size)
        self._host_memory = HostMemory()
        self._loss = torch.zeros((), device=world.device)
        """Of the step under way: this rank's part of the mean over the global batch."""

    def setup(self, recipe: Recipe) -> None:
        self._recipe, self._task = recipe, recipe.task
        module = skeleton(recipe.build)
        recipe.prepare(module)
        materialise(module, self.world.device)
        self._module = module.train()
        self._buffers = Rank0Buffers(module, self.world)
        self._optimizer = recipe.optimizer(module)
        self._update = Update(self._optimizer, self._rules)

    def initialise(self) -> None:
        self._recipe.initialise(self._module, write)

    def load(self, files: CommittedFiles) -> None:
        whole_state.load(files, self._module, self._optimizer, self._update, self.world)

    def step(self, rate: float) -> StepResult:
        gradients = [parameter.grad for parameter in self._module.parameters() if parameter.grad is not None]
        loss = self._loss.clone()
        self.world.all_reduce(loss)
        self._loss.zero_()
        # Equal on all ranks without asking: reduced gradients and loss have the same bits everywhere.
        return self._update.apply(loss, nn.utils.get_total_norm(gradients), gradients, rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Tensor:
        self._buffers.synchronize()
        if self._module.training:
            self._module.eval()
        with autocast(self.world.device, self._rules.precision):
            measured = measure(self._task, self._module, batch, self.world.device)
        return torch.stack([measured.loss.double(), measured.correct.double()])

    def snapshot(self) -> Snapshot:
        self._buffers.synchronize()
        writes = self.layout.written(self.world.place.rank) is not None
        state = whole_state.files(self._module, self._optimizer, self._update) if writes else {}
        return TensorSnapshot(state, self._host_memory)


_COMPRESS: dict[Precision | None, Callable[..., Future[Tensor]]] = {
    # ``register_comm_hook`` knows torch's own by its name, and refuses it where there is no NCCL. gloo sums bf16 as well.
    "bf16": lambda group, bucket: bf16_compress_hook(group, bucket),
    "fp16": fp16_compress_hook,
}


class DDPEngine(ReplicatedEngine[TorchWorld]):
    """DDP. bf16 and fp16 autocast the forward pass; weights, gradients and optimizer stay fp32.

    Args:
        world: The ranks.
        rules: Of the optimizer's steps.
        gradient_reduction: Data type in which gradients are summed over ranks; default fp32.
        settings: Of the buckets in which they are.
    """

    capabilities = CAPABILITIES["ddp"]

    def __init__(
        self, world: TorchWorld, rules: UpdateSettings, gradient_reduction: Precision | None = None,
        settings: DDPSettings | None = None,
    ) -> None:
        super().__init__(world, rules)
        self._reduction, self._settings = gradient_reduction, settings or DDPSettings()
        self._undecided = False
        """Whether it is open if gradients stay in DDP's buckets between steps."""

    def warm_up(self, batch: Batch) -> None:
        # Besides memory, this settles two things for DDP. Whether some parameters get no gradient: DDP then has to look for them
        # in each pass. And the order in which it sums gradients: it sorts its buckets again after the first backward pass
        # (Reducer::rebuild_buckets), and a ring sums an element in an order that depends on its place in a bucket, so that the
        # first step after a resume would sum in another order than the same step uninterrupted.
        with preserving_state(self._module, self.world.device):
            with autocast(self.world.device, self._rules.precision):
                measure(self._task, self._module, batch, self.world.device).loss.backward()  # type: ignore[no-untyped-call]
            self._wrap()
            self.forward_backward(batch, loss_denominator=1.0, sync=True)
        self._optimizer.zero_grad(set_to_none=self._some_unused)
        self._undecided = not self._some_unused
        self._loss.zero_()

    def _wrap(self) -> None:
        parameters = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        # Decided together: a rank that looks for unused parameters makes one collective more than a rank that does not.
        [unused] = self.world.control.reduce_sums([any(parameter.grad is None for parameter in parameters)])
        self._some_unused = unused > 0
        self._optimizer.zero_grad()
        self._ddp = DistributedDataParallel(
            self._module,
            device_ids=[self.world.device] if self.world.device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self._settings.bucket_cap_mb,
            find_unused_parameters=self._some_unused,
        )
        # Not in each forward pass, where a rank would wait for rank 0: before evaluations and saves is enough. An attribute since
        # torch 2.13 has another name for the argument.
        self._ddp.broadcast_buffers = False
        if self._reduction in _COMPRESS:
            self._ddp.register_comm_hook(None, _COMPRESS[self._reduction])

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._module.training:
            self._module.train()
        if self._undecided:
            self._keep_gradients(not sync)
        # DDP averages over ranks; the world size turns its mean back into the sum that the global denominator asks for.
        with nullcontext() if sync else self._ddp.no_sync():
            with autocast(self.world.device, self._rules.precision):
                loss = measure(self._task, self._ddp, batch, self.world.device).loss / loss_denominator
            self._backward(loss * (self.world.place.world_size * self._update.scale))
        self._loss += loss.detach()
        self._buffers.changed()

    def _keep_gradients(self, several_passes: bool) -> None:
        """Decide at the first pass of the first step, for all steps, whether gradients stay in DDP's buckets between them.

        In steps of several passes they do: one that a pass without communication makes lies beside the buckets, 4 bytes a
        parameter more. In others they do not, from the first step on: DDP divides what lies in a bucket by the number of ranks,
        and multiplies what it copies into one by the inverse (Reducer::mark_variable_ready_dense). Of three ranks both round
        differently.
        A parameter that takes no part must have no gradient, or the optimizer would move it: there they never stay.
        """
        self._update.keeps_gradients = several_passes
        if not several_passes:
            self._optimizer.zero_grad()
        self._undecided = False

    def _backward(self, loss: Tensor) -> None:
        """A backward pass whose last part, after this rank's own gradients, is a wait for those of the others."""
        began: list[Instant | None] = []
        # Autograd makes such calls at the end of a pass, in the order in which they were asked for. DDP asks with its last
        # bucket, for what waits until all buckets are summed (Reducer::mark_variable_ready, Reducer::finalize_backward).
        at_the_end = torch.autograd.Variable._execution_engine.queue_callback
        loss.register_hook(lambda _: at_the_end(lambda: began.append(self.world.waits.begin())))  # type: ignore[no-untyped-call]
        loss.backward()  # type: ignore[no-untyped-call]
        self.world.waits.end(began.pop())
