"""ZeRO by DeepSpeed, from the ``ds_config.json`` that was rendered with the run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from trainwright_trainer.checkpoint import CommittedFiles, Snapshot
from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.sharding import of_deepspeed
from trainwright_trainer.contract.training import AdamW, Optimizer, Precision
from trainwright_trainer.engine import deepspeed_files, whole_state
from trainwright_trainer.engine.base import Recipe, StepResult
from trainwright_trainer.engine.forward import COMPUTE, Rank0Buffers, measure, preserving_state
from trainwright_trainer.engine.update import read_later
from trainwright_trainer.engine.waits import Waits
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.model.initialise import materialise, skeleton
from trainwright_trainer.task.base import Batch

_ACCELERATOR_ENV = "DS_ACCELERATOR"
"""DeepSpeed looks for GPUs when it is imported; this names the device instead."""


class DeepSpeedEngine:
    """DeepSpeed's own engine, with our optimizer, rates and data.

    Args:
        world: The ranks.
        precision: Of the run; the configuration's must be the same.
        config: Path of DeepSpeed's configuration.
        optimizer: Of the run; where its state lives on the host, DeepSpeed needs one of its own.

    Raises:
        InvalidRunError: The configuration cannot be read or is for another precision, DeepSpeed is not in this image, or it does
            not train in this precision here.
    """

    capabilities = CAPABILITIES["deepspeed"]

    def __init__(self, world: TorchWorld, precision: Precision, config: Path, optimizer: Optimizer) -> None:
        self.world, self._precision, self._settings = world, precision, optimizer
        self._config = _read_config(config, precision)
        self.layout = of_deepspeed(self._config, world.place.world_size).layout
        self._deepspeed = _import_deepspeed(world.device)
        _check_precision(precision, world.device)
        backend = "gloo" if world.device.type == "cpu" else "nccl"
        self._deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False)
        communication = self._deepspeed.comm.comm  # its functions call their backend by this name
        communication.cdb = TimedBackend(communication.cdb, world.waits)
        self._loss = torch.zeros((), device=world.device)

    @property
    def _stage(self) -> int:
        return int(self._config["zero_optimization"]["stage"])

    def setup(self, recipe: Recipe) -> None:
        self._recipe, self._task = recipe, recipe.task
        if self._stage == 3:
            with ExitStack() as building:
                building.enter_context(no_init_weights())
                building.enter_context(self._partitioned())
                self._module = recipe.build()
            if isinstance(self._module, PreTrainedModel):
                self._module.tie_weights(recompute_mapping=False)  # a part of what `no_init_weights` leaves out
        else:
            self._module = skeleton(recipe.build)
            materialise(self._module, self.world.device)
        recipe.prepare(self._module)
        self._buffers = Rank0Buffers(self._module.train(), self.world)

    def _partitioned(self) -> AbstractContextManager[Any]:
        """Modules built below give each parameter away but for this rank's part, as soon as they have made it."""
        # Of the configuration's precision. One that is named here would become bf16 wherever the device has no fp16
        # (_set_dtype in deepspeed/runtime/zero/partition_parameters.py, 0.19.8).
        partitioned: AbstractContextManager[Any] = self._deepspeed.zero.Init(config_dict_or_path=self._config)
        return partitioned

    def initialise(self) -> None:
        self._recipe.initialise(self._module, self._store)
        self._start(self._config)

    def load(self, files: CommittedFiles) -> None:
        # DeepSpeed copies its master weights when it starts, so it starts before it loads, over whatever the memory holds.
        if files.world_size == self.world.place.world_size:
            self._start(self._config)
            deepspeed_files.load(self._engine, files)
            return
        with deepspeed_files.converted(files, self.world) as universal:
            self._start({**self._config, "checkpoint": {**self._config.get("checkpoint", {}), "load_universal": True}})
            deepspeed_files.load_universal(self._engine, universal)
        # DeepSpeed reads parameters from a universal checkpoint, and leaves buffers as they are (_load_checkpoint in
        # deepspeed/runtime/engine.py, 0.19.8): batch norm would begin again.
        if persistent := dict(whole_state.persistent_buffers(self._module)):
            held = deepspeed_files.buffers(files)
            for name, buffer in persistent.items():
                buffer.copy_(held[name])

    def _start(self, config: dict[str, Any]) -> None:
        buffers = dict(self._module.named_buffers())
        persistent = self._module.state_dict().keys() if self._stage < 3 else ()
        self._engine, self._optimizer, _, _ = self._deepspeed.initialize(
            model=self._module, optimizer=self._make_optimizer(), config=config, dist_init_required=False
        )
        # DeepSpeed casts all of a module to the run's precision, and rotary frequencies in bf16 are wrong by whole positions.
        for owner_name, owner in self._module.named_modules():
            for name, _ in owner.named_buffers(recurse=False):
                full = f"{owner_name}.{name}" if owner_name else name
                if full not in persistent and full in buffers:
                    setattr(owner, name, buffers[full].to(self.world.device))

    def _make_optimizer(self) -> Any:
        optimizer = self._recipe.optimizer(self._module)
        if "offload_optimizer" not in self._config["zero_optimization"] or not isinstance(self._settings, AdamW):
            return optimizer
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        settings = self._settings
        return DeepSpeedCPUAdam(
            optimizer.param_groups, lr=_rate(optimizer), betas=settings.betas, eps=settings.eps, adamw_mode=True
        )

    @torch.no_grad()
    def _store(self, parameter: nn.Parameter, value: Tensor) -> None:
        if self._stage < 3:
            parameter.copy_(value)
            return
        with self._deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
            if self.world.place.leads:
                parameter.copy_(value)

    def warm_up(self, batch: Batch) -> None:
        with preserving_state(self._module, self.world.device):
            loss = self._forward(batch)
            del loss

    def _forward(self, batch: Batch) -> Tensor:
        return measure(self._task, self._engine, self._cast(batch), self.world.device).loss

    def _cast(self, batch: Batch) -> Batch:
        """Images in the precision of the weights, which DeepSpeed casts and inputs it does not."""
        compute = COMPUTE[self._precision]
        return {name: tensor.to(compute) if tensor.is_floating_point() else tensor for name, tensor in batch.items()}

    def forward_backward(self, batch: Batch, *, loss_denominator: float, sync: bool) -> None:
        if not self._engine.training:
            self._engine.train()
        self._engine.set_gradient_accumulation_boundary(is_boundary=sync)
        loss = self._forward(batch) / loss_denominator
        self._engine.backward(loss * self.world.place.world_size, scale_wrt_gas=False)
        self._loss += loss.detach()
        self._buffers.changed()
        if not sync:
            self._engine.step()  # counts the micro batch

    def step(self, rate: float) -> StepResult:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._engine.step()
        loss = self._loss.clone()
        self.world.all_reduce(loss)
        self._loss.zero_()
        norm = torch.as_tensor(float(self._engine.get_global_grad_norm() or 0.0), device=self.world.device)
        # An overflow of fp16 is DeepSpeed's to handle: it lowers its scale and leaves the step out.
        finite = torch.isfinite(loss) if self._precision == "fp16" else torch.isfinite(loss) & torch.isfinite(norm)
        return StepResult(loss, norm, read_later(finite))

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Tensor:
        self._buffers.synchronize()
        if self._engine.training:
            self._engine.eval()
        measured = measure(self._task, self._engine, self._cast(batch), self.world.device)
        return torch.stack([measured.loss.double(), measured.correct.double()])

    def snapshot(self) -> Snapshot:
        self._buffers.synchronize()
        return deepspeed_files.DeepSpeedSnapshot(self._engine, self.world.place)


class TimedBackend:
    """DeepSpeed's backend of communication, which takes note of how long this rank is in collectives.

    Only of what blocks: a collective that goes on beside the computation counts from when it is waited for.
    """

    def __init__(self, backend: Any, waits: Waits) -> None:
        self._backend, self._waits = backend, waits

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._backend, name)
        return self._timed(attribute) if name in _COLLECTIVES else attribute

    def _timed(self, collective: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            with self._waits.waiting():
                work = collective(*arguments, **options)
            return work if work is None else TimedWork(work, self._waits)

        return timed


class TimedWork:
    """A collective under way."""

    def __init__(self, work: Any, waits: Waits) -> None:
        self._work, self._waits = work, waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def wait(self, *arguments: Any) -> Any:
        with self._waits.waiting():
            return self._work.wait(*arguments)


_COLLECTIVES = (
    "all_reduce", "all_reduce_coalesced", "inference_all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "all_gather", "all_gather_into_tensor", "all_gather_coalesced", "broadcast", "all_to_all", "all_to_all_single", "barrier",
)


def _rate(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.defaults["lr"])


def _read_config(path: Path, precision: Precision) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
        enabled = {name: bool(config.get(name, {}).get("enabled")) for name in ("bf16", "fp16")}
        int(config["zero_optimization"]["stage"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRunError(f"deepspeed.config {path} cannot be read: {error}") from error
    said = next((name for name, on in enabled.items() if on), "fp32")
    if said != precision:
        raise InvalidRunError(f"deepspeed.config {path} enables {said}, and the run's precision is {precision}: compile it again")
    return dict(config)


def _import_deepspeed(device: torch.device) -> Any:
    if device.type == "cpu":
        os.environ.setdefault(_ACCELERATOR_ENV, "cpu")
    try:
        import deepspeed
    except ImportError as error:
        raise InvalidRunError(
            f"engine deepspeed needs DeepSpeed, which this image lacks ({error}); use an image built with it, or engine fsdp2"
        ) from error
    return deepspeed


def _check_precision(precision: Precision, device: torch.device) -> None:
    """DeepSpeed's own refusal comes later and says less (_do_sanity_check in deepspeed/runtime/engine.py, 0.19.8)."""
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    trains = {"bf16": accelerator.is_bf16_supported(), "fp16": accelerator.is_fp16_supported(), "fp32": True}
    if trains[precision]:
        return
    lack = "this processor lacks AVX512-FP16" if device.type == "cpu" else "the GPU is too old for it"
    others = " or ".join(other for other, able in trains.items() if able)
    raise InvalidRunError(
        f"engine deepspeed does not train in precision {precision} here, where {lack}; set precision to {others}, and compile "
        "the run again"
    )
