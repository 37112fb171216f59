"""Data parallelism by ``torch.nn.parallel.DistributedDataParallel``: every rank holds the whole model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine.forward import autocast, measure, preserving_state
from trainwright_trainer.engine.replicated import ReplicatedEngine
from trainwright_trainer.engine.update import UpdateRules
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.task.base import Batch

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
    """

    capabilities = CAPABILITIES["ddp"]

    def __init__(self, world: TorchWorld, rules: UpdateRules, gradient_reduction: Precision | None = None) -> None:
        super().__init__(world, rules)
        self._reduction = gradient_reduction

    def warm_up(self, batch: Batch) -> None:
        # Besides memory, this settles two things for DDP. Whether some parameters get no gradient: DDP then has to look for them
        # in each pass. And the order in which it sums gradients: it sorts its buckets anew after the first backward pass
        # (Reducer::rebuild_buckets), and a ring sums an element in an order that depends on its place in a bucket, so that the
        # first step after a resume would sum in another order than the same step uninterrupted.
        with preserving_state(self._module, self.world.device):
            with autocast(self.world.device, self._rules.precision):
                measure(self._task, self._module, batch, self.world.device).loss.backward()  # type: ignore[no-untyped-call]
            self._wrap()
            self.forward_backward(batch, loss_denominator=1.0, sync=True)
        self._optimizer.zero_grad()
        self._loss.zero_()

    def _wrap(self) -> None:
        parameters = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        # Decided together: a rank that looks for unused parameters makes one collective more than a rank that does not.
        [unused] = self.world.control.reduce_sums([any(parameter.grad is None for parameter in parameters)])
        self._optimizer.zero_grad()
        self._ddp = DistributedDataParallel(
            self._module,
            device_ids=[self.world.device] if self.world.device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            find_unused_parameters=unused > 0,
        )
        if self._reduction in _COMPRESS:
            self._ddp.register_comm_hook(None, _COMPRESS[self._reduction])

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._ddp.training:
            self._ddp.train()  # type: ignore[no-untyped-call]
        # DDP averages over ranks; the world size turns its mean back into the sum that the global denominator asks for.
        with nullcontext() if sync else self._ddp.no_sync():
            with autocast(self.world.device, self._rules.precision):
                loss = measure(self._task, self._ddp, batch, self.world.device).loss / loss_denominator
            (loss * (self.world.place.world_size * self._update.scale)).backward()  # type: ignore[no-untyped-call]
        self._loss += loss.detach()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Tensor:
        if self._ddp.training:
            self._ddp.eval()
        # Through DDP, which hands out rank 0's batch-norm statistics before the first evaluation after a step.
        with autocast(self.world.device, self._rules.precision):
            measured = measure(self._task, self._ddp, batch, self.world.device)
        return torch.stack([measured.loss.double(), measured.correct.double()])
