"""Data parallelism by ``torch.nn.parallel.DistributedDataParallel``: every rank holds the whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine import optimizer_state
from trainwright_trainer.engine.base import Capabilities, ReadTensors, StepResult, Tensors
from trainwright_trainer.failures import InvalidRunError
from trainwright_trainer.place import Place
from trainwright_trainer.task.base import Batch, Measurement, Task

T = TypeVar("T")

MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"


class DDPEngine:
    """DDP over gloo on CPUs and NCCL on GPUs.

    Args:
        place: This rank; the address of rank 0 comes from MASTER_ADDR and MASTER_PORT.
        device: Where to compute, ``cpu`` or ``cuda:<local rank>``.
        precision: bf16 autocasts the forward pass; weights, gradients and optimizer stay fp32.
        clip_norm: Global gradient norm to clip at, if any.
        timeout: Longest wait in one collective. The supervisor finds lost peers much sooner; a save must fit in.
    """

    capabilities = Capabilities(resumes_at_other_world_sizes=True, every_rank_writes_weights=False)

    def __init__(
        self, place: Place, device: torch.device, precision: Precision, clip_norm: float | None, timeout: timedelta
    ) -> None:
        self._place, self._device, self._precision, self._clip_norm = place, device, precision, clip_norm
        cuda = device.type == "cuda"
        dist.init_process_group(
            "nccl" if cuda else "gloo", init_method="env://", rank=place.rank, world_size=place.world_size, timeout=timeout,
            device_id=device if cuda else None,
        )
        # Objects and host numbers have a group of their own: on GPUs they then need no device memory and order with no kernel.
        self._control = dist.new_group(backend="gloo", timeout=timeout)
        self._loss = torch.zeros((), device=device)

    @property
    def device(self) -> torch.device:
        return self._device

    def setup(
        self, build_module: Callable[[], nn.Module], build_optimizer: Callable[[nn.Module], torch.optim.Optimizer], task: Task
    ) -> None:
        self._task = task
        self._module = build_module().to(self._device).train()
        self._optimizer = build_optimizer(self._module)

    def warm_up(self, batch: Batch) -> None:
        # Besides memory, this settles two things for DDP. Whether some parameters get no gradient: DDP then has to look for them
        # in each pass. And the order in which it sums gradients: it sorts its buckets anew after the first backward pass
        # (Reducer::rebuild_buckets), and a ring sums an element in an order that depends on its place in a bucket, so that the
        # first step after a resume would sum in another order than the same step uninterrupted.
        buffers = {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            self._measure(self._module, batch).loss.backward()  # type: ignore[no-untyped-call]
            self._wrap()
            self.forward_backward(batch, loss_denominator=1.0, sync=True)
        for name, buffer in self._module.named_buffers():
            buffer.copy_(buffers[name])
        self._optimizer.zero_grad()
        self._loss.zero_()

    def _wrap(self) -> None:
        parameters = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        # Decided together: a rank that looks for unused parameters makes one collective more than a rank that does not.
        [unused] = self.reduce_sums([any(parameter.grad is None for parameter in parameters)])
        self._optimizer.zero_grad()
        self._ddp = DistributedDataParallel(
            self._module,
            device_ids=[self._device] if self._device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            find_unused_parameters=unused > 0,
        )

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._ddp.training:
            self._ddp.train()  # type: ignore[no-untyped-call]
        # DDP averages over ranks; the world size turns its mean back into the sum that the global denominator asks for.
        share = 1 / loss_denominator
        with nullcontext() if sync else self._ddp.no_sync():
            loss = self._measure(self._ddp, batch).loss * share
            (loss * self._place.world_size).backward()  # type: ignore[no-untyped-call]
        self._loss += loss.detach()

    def step(self, rate: float) -> StepResult:
        parameters = [parameter for parameter in self._module.parameters() if parameter.grad is not None]
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
        if self._clip_norm is not None:
            nn.utils.clip_grads_with_norm_(parameters, self._clip_norm, norm)
        loss = self._loss.clone()
        dist.all_reduce(loss)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._loss.zero_()
        # Equal on all ranks without asking: reduced gradients and loss have the same bits everywhere.
        return StepResult(loss, norm, _read_later(torch.isfinite(norm) & torch.isfinite(loss)))

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Tensor:
        if self._ddp.training:
            self._ddp.eval()
        # Through DDP, which hands out rank 0's batch-norm statistics before the first evaluation after a step.
        measured = self._measure(self._ddp, batch)
        return torch.stack([measured.loss.double(), measured.correct.double()])

    def _measure(self, module: nn.Module, batch: Batch) -> Measurement:
        on_device = {name: tensor.to(self._device, non_blocking=True) for name, tensor in batch.items()}
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._precision == "bf16"):
            return self._task.measure(module, on_device)

    def state(self) -> Mapping[str, Tensors]:
        if not self._place.leads:
            return {}
        return {MODEL_FILE: self._weights(), OPTIMIZER_FILE: optimizer_state.flatten(self._module, self._optimizer)}

    def load(self, read: ReadTensors) -> None:
        self._load_weights(self._from_rank_0(read, MODEL_FILE))
        optimizer_state.restore(self._module, self._optimizer, self._from_rank_0(read, OPTIMIZER_FILE))

    def _weights(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name; a tied parameter appears once, under its first name."""
        tied = dict(self._module.named_parameters(remove_duplicate=False)).keys() - dict(self._module.named_parameters()).keys()
        return {name: tensor for name, tensor in self._module.state_dict().items() if name not in tied}

    def _load_weights(self, tensors: dict[str, Tensor]) -> None:
        wanted = self._weights()
        for name in sorted(wanted.keys() | tensors.keys()):
            ours, theirs = (tuple(side[name].shape) if name in side else "absent" for side in (wanted, tensors))
            if ours != theirs:
                raise InvalidRunError(
                    f"the checkpoint holds another model: {name} is {theirs} there and {ours} in this run; "
                    "an edited model needs a checkpoint directory of its own"
                )
        self._module.load_state_dict(tensors, strict=False)

    def _from_rank_0(self, read: ReadTensors, file: str) -> dict[str, Tensor]:
        """Rank 0 reads, the others receive: one reader on the volume, whatever the world size."""
        tensors = read(file) if self._place.leads else {}
        shapes = self.broadcast_object({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            received[name] = tensors[name].contiguous() if self._place.leads else torch.empty(shape, dtype=dtype)
            dist.broadcast(received[name], src=0, group=self._control)
        return received

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self._control)
        return [float(value) for value in tensor]

    def broadcast_object(self, value: T) -> T:
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._control)
        return values[0]

    def gather_objects(self, value: T) -> list[T]:
        gathered: list[T | None] | None = [None] * self._place.world_size if self._place.leads else None
        dist.gather_object(value, gathered, dst=0, group=self._control)
        return [part for part in gathered or [] if part is not None]

    def close(self) -> None:
        dist.destroy_process_group()


def _read_later(flag: Tensor) -> Callable[[], bool]:
    """Start the copy of a flag to the host now, and read it whenever it is called."""
    if flag.device.type != "cuda":
        return lambda: bool(flag)
    host = torch.empty((), dtype=torch.bool, pin_memory=True)
    host.copy_(flag, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def read() -> bool:
        copied.synchronize()
        return bool(host)

    return read
