"""DeepSpeed's configuration, complete, from the run and its plan.

Its keys are those of DeepSpeed 0.19 (deepspeed/runtime/config.py, deepspeed/runtime/zero/config.py) and most are as old as
0.10. Every key that decides what is computed, sent or kept is written, so that another default in a later DeepSpeed changes no
run.

There is no ``optimizer`` and no ``scheduler`` block: the trainer hands DeepSpeed its own objects. Its rates are counted in
samples and come from the plan, and a second place for them could only say the same or something wrong.
"""

from __future__ import annotations

from typing import Any

from trainwright.plan.model import BatchPlan
from trainwright.run import Run, TrainerWorkload
from trainwright.topology import ZeRO
from trainwright.topology.zero import STAGE_3_ONLY
from trainwright_trainer.contract.training import SGD

DYNAMIC_LOSS_SCALE = 0
"""DeepSpeed's way to say that the loss scale follows overflows."""


def plan_deepspeed(run: Run, batch: BatchPlan | None) -> dict[str, Any] | None:
    """The whole of ``ds_config.json``; None where our trainer does not train with DeepSpeed."""
    topology, work = run.topology, run.trainer
    if not isinstance(topology, ZeRO) or topology.engine != "deepspeed" or work is None or batch is None:
        return None
    if batch.effective != batch.micro * batch.accumulation * topology.needs().world_size:
        raise AssertionError("DeepSpeed counts the same ranks as the plan")
    precision = work.precision
    return {
        "train_batch_size": batch.effective,
        "train_micro_batch_size_per_gpu": batch.micro,
        "gradient_accumulation_steps": batch.accumulation,
        "gradient_clipping": work.clip_norm or 0.0,
        "bf16": {"enabled": precision == "bf16"},
        "fp16": _fp16() if precision == "fp16" else {"enabled": False},
        "data_types": {"grad_accum_dtype": topology.sharding().accumulates(precision, batch.accumulation)},
        "communication_data_type": work.gradient_reduction or precision,
        "prescale_gradients": False,
        "zero_optimization": _zero(topology),
        **_optimizer(topology, work),
        "checkpoint": {"tag_validation": "FAIL"},
    }


def _fp16() -> dict[str, Any]:
    return {
        "enabled": True,
        "loss_scale": DYNAMIC_LOSS_SCALE,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1,
    }


def _zero(topology: ZeRO) -> dict[str, Any]:
    settings = topology.deepspeed_settings
    zero: dict[str, Any] = {
        "stage": topology.stage,
        "overlap_comm": settings.overlap_comm,
        "contiguous_gradients": settings.contiguous_gradients,
        "reduce_scatter": True,
        "reduce_bucket_size": settings.reduce_bucket_size,
    }
    if topology.stage < 3:
        zero |= {
            "use_multi_rank_bucket_allreduce": True,
            "allgather_partitions": True,
            "allgather_bucket_size": settings.allgather_bucket_size,
        }
    else:
        zero |= {key: getattr(settings, key) for key in STAGE_3_ONLY}
    if topology.offload.optimizer == "cpu":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if topology.offload.weights == "cpu":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return zero


def _optimizer(topology: ZeRO, work: TrainerWorkload) -> dict[str, Any]:
    """What DeepSpeed has to allow of the optimizer that it is handed."""
    if not isinstance(work.optimizer, SGD):
        return {}
    allowed: dict[str, Any] = {"zero_allow_untested_optimizer": True}
    return allowed | ({"zero_force_ds_cpu_optimizer": False} if topology.offload.optimizer == "cpu" else {})


_KNOBS = "run:/topology/deepspeed"
_PRECISION = "run:/workload/precision"
_OFFLOAD = "run:/topology/offload"
_PINNED = ("trainwright", "copies between host and GPU at full speed, beside the computation")

_ZERO: dict[str, tuple[str, str]] = {
    "": ("run:/topology", "what the ranks share, and in which portions it travels"),
    "/stage": ("run:/topology/kind", "1 shares optimizer state, 2 gradients too, 3 weights too"),
    "/overlap_comm": (f"{_KNOBS}/overlap_comm", "whether gradients travel while the backward pass goes on"),
    "/contiguous_gradients": (f"{_KNOBS}/contiguous_gradients", "whether one buffer takes the gradients, against fragmentation"),
    "/reduce_scatter": ("trainwright", "gradients are summed for the rank that keeps them, not for all"),
    "/use_multi_rank_bucket_allreduce": (
        "trainwright",
        "buckets of several ranks are summed in one all-reduce: more bytes and far fewer messages",
    ),
    "/reduce_bucket_size": (f"{_KNOBS}/reduce_bucket_size", "gradients, in elements, that are reduced at a time"),
    "/allgather_partitions": ("trainwright", "new weights are gathered at once, not sent rank by rank"),
    "/allgather_bucket_size": (f"{_KNOBS}/allgather_bucket_size", "new weights, in elements, that are gathered at a time"),
    "/stage3_prefetch_bucket_size": (
        f"{_KNOBS}/stage3_prefetch_bucket_size",
        "weights, in elements, that are gathered ahead of their use",
    ),
    "/stage3_param_persistence_threshold": (
        f"{_KNOBS}/stage3_param_persistence_threshold",
        "tensors of at most so many elements stay whole on every rank: a message for each would cost more",
    ),
    "/stage3_max_live_parameters": (
        f"{_KNOBS}/stage3_max_live_parameters",
        "most gathered weights at one time: more of them is less traffic and more memory",
    ),
    "/stage3_max_reuse_distance": (
        f"{_KNOBS}/stage3_max_reuse_distance",
        "gathered weights that are used again within so many elements are kept",
    ),
    "/stage3_gather_16bit_weights_on_model_save": (
        f"{_KNOBS}/stage3_gather_16bit_weights_on_model_save",
        "whether save_16bit_model gathers the model on rank 0; the trainer's checkpoints are sharded and do without",
    ),
    "/sub_group_size": (f"{_KNOBS}/sub_group_size", "weights, in elements, that the optimizer steps at a time"),
    "/offload_optimizer": (f"{_OFFLOAD}/optimizer", "master weights, optimizer state and its step"),
    "/offload_optimizer/device": (f"{_OFFLOAD}/optimizer", "the host's memory"),
    "/offload_optimizer/pin_memory": _PINNED,
    "/offload_param": (f"{_OFFLOAD}/weights", "the shards of the weights"),
    "/offload_param/device": (f"{_OFFLOAD}/weights", "the host's memory"),
    "/offload_param/pin_memory": _PINNED,
}

SOURCES: dict[str, tuple[str, str]] = {
    "": ("trainwright", "DeepSpeed's configuration, made from the plan"),
    "/train_batch_size": ("run:/batch", "micro batch x accumulation x ranks; DeepSpeed starts with no other number"),
    "/train_micro_batch_size_per_gpu": ("run:/batch/micro", "samples of one rank in one forward pass"),
    "/gradient_accumulation_steps": ("run:/batch/accumulation", "forward passes for each step of the optimizer"),
    "/gradient_clipping": ("run:/workload/clip_norm", "largest norm of the whole gradient; 0 does not clip"),
    "/bf16": (_PRECISION, "weights, gradients and activations in bf16; needs no loss scale"),
    "/bf16/enabled": (_PRECISION, "whether the precision is bf16"),
    "/fp16": (_PRECISION, "weights, gradients and activations in fp16, whose small gradients need a loss scale"),
    "/fp16/enabled": (_PRECISION, "whether the precision is fp16; never with bf16"),
    "/fp16/loss_scale": ("trainwright", "0: the scale halves when gradients overflow and grows when they do not"),
    "/fp16/initial_scale_power": ("trainwright", "the scale begins at 2^16: DeepSpeed's default"),
    "/fp16/loss_scale_window": ("trainwright", "it doubles after so many steps without overflow: DeepSpeed's default"),
    "/fp16/hysteresis": ("trainwright", "overflows before it halves: DeepSpeed's default"),
    "/fp16/min_loss_scale": ("trainwright", "it never falls below: DeepSpeed's default"),
    "/data_types": (_PRECISION, "types of what is kept"),
    "/data_types/grad_accum_dtype": (
        f"{_KNOBS}/grad_accum_dtype",
        "type in which gradients are added up; fp32 where bf16 is accumulated, because its 8 bits lose small ones",
    ),
    "/communication_data_type": ("run:/workload/gradient_reduction", "type of gradients on their way; else that of weights"),
    "/prescale_gradients": ("trainwright", "gradients are averaged after they are summed; ZeRO's reduce-scatter asks for it"),
    **{f"/zero_optimization{pointer}": answer for pointer, answer in _ZERO.items()},
    "/zero_allow_untested_optimizer": ("run:/workload/optimizer", "DeepSpeed takes torch's SGD only with this word"),
    "/zero_force_ds_cpu_optimizer": ("run:/workload/optimizer", "DeepSpeed has no SGD for the host, so torch's own steps there"),
    "/checkpoint": ("trainwright", "how DeepSpeed saves where the trainer asks it to"),
    "/checkpoint/tag_validation": ("trainwright", "ranks that save different steps end the run: nobody could load the result"),
}
"""Pointer into the configuration -> where the value comes from and why; the nearest entry answers."""
