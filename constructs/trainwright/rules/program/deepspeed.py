"""Rules on a DeepSpeed configuration that a run brings along: does it say what the plan says, and does DeepSpeed read it?

A file of the run counts as one where it is a mapping with the key ``zero_optimization``. Our trainer's own is made from the plan.

The lists of keys are those that release 0.19.8 reads, those with a new name, and those that it refuses. They come from
deepspeed/runtime/config.py, constants.py, precision_config.py, zero/config.py, zero/offload_config.py and the modules that
read a block of their own. A block whose keys are not listed is left to DeepSpeed. Inside a listed block an unknown key ends the
start of a run (``extra="forbid"`` in runtime/config_utils.py); at the top level it is ignored silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import Locator, pointer_to
from trainwright.model import closest
from trainwright.plan import Resolution
from trainwright.topology import DDP, ZeRO

STAGE_3_KEYS = frozenset({
    "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_model_persistence_threshold",
    "stage3_max_live_parameters", "stage3_max_reuse_distance", "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save", "stage3_module_granularity_threshold", "stage3_use_all_reduce_for_fetch_params",
    "stage3_allgather_sequential", "stage3_partition_stream_chunk_size", "sub_group_size", "offload_param", "cpu_offload_param",
    "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_nontrainable_weights", "memory_efficient_linear",
})
"""Keys of zero_optimization that only stage 3 reads."""

_ZERO = STAGE_3_KEYS | {
    "stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "use_multi_rank_bucket_allreduce",
    "allgather_partitions", "allgather_bucket_size", "overlap_comm", "compute_grad_norm", "load_from_fp32_weights",
    "elastic_checkpoint", "offload_optimizer", "zenflow", "cpu_offload", "cpu_offload_use_pin_memory", "ignore_unused_parameters",
    "legacy_stage1", "round_robin_gradients", "parameter_alignment", "zero_quantized_gradients", "pipeline_loading_checkpoint",
    "override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks", "save_muon_momentum_buffer_in_memory",
    "leaf_module",
    # the field behind each alias is taken too (populate_by_name)
    "prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold", "max_live_parameters",
    "max_reuse_distance", "gather_16bit_weights_on_model_save", "module_granularity_threshold", "use_all_reduce_for_fetch_params",
    "allgather_sequential", "partition_stream_chunk_size",
}

BLOCKS: dict[str, frozenset[str]] = {
    "": frozenset({
        "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "managed_gradient_accumulation",
        "steps_per_print", "dump_state", "disable_python_gc", "disable_allgather", "communication_data_type",
        "seq_parallel_communication_data_type", "prescale_gradients", "gradient_predivide_factor", "gradient_allreduce_op",
        "zero_optimization", "activation_checkpointing", "comms_logger", "tensorboard", "wandb", "csv_monitor", "comet",
        "gradient_clipping", "bf16", "bfloat16", "fp16", "torch_autocast", "optimizer", "scheduler",
        "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "flops_profiler", "wall_clock_breakdown",
        "memory_breakdown", "autotuning", "use_data_before_expert_parallelism", "hybrid_engine", "pipeline", "data_efficiency",
        "checkpoint", "data_types", "aio", "dataloader_drop_last", "log_level", "datastates_ckpt",
        "weight_quantization", "compile", "timers", "tensor_parallel", "expert_parallel",
        "sequence_parallel_size", "vocabulary_size",
    }),
    "zero_optimization": _ZERO,
    "zero_optimization/offload_optimizer": frozenset({
        "device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "fast_init", "ratio",
        "super_offload", "cpuadam_cores_perc",
    }),
    "zero_optimization/offload_param": frozenset({
        "device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory",
    }),
    "bf16": frozenset({
        "enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads", "bf16_optimizer_states",
    }),
    "fp16": frozenset({
        "enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis",
        "min_loss_scale", "fp16_master_weights_and_grads",
    }),
    "activation_checkpointing": frozenset({
        "partition_activations", "number_checkpoints", "contiguous_memory_optimization", "synchronize_checkpoint_boundary",
        "profile", "cpu_checkpointing",
    }),
    "data_types": frozenset({"grad_accum_dtype", "param_dtype", "buffer_dtype", "keep_in_fp32_modules"}),
    "optimizer": frozenset({"type", "params", "legacy_fusion"}),
    "scheduler": frozenset({"type", "params"}),
}  # fmt: skip
"""Path of a block -> its keys."""

REPLACED: dict[str, str] = {
    "zero_optimization/cpu_offload": "offload_optimizer: {device: cpu}",
    "zero_optimization/cpu_offload_param": "offload_param: {device: cpu}",
    "zero_optimization/cpu_offload_use_pin_memory": "pin_memory inside offload_optimizer or offload_param",
    "zero_optimization/stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
    "bfloat16": "bf16",
}
"""Key that is still read under protest -> what to write."""

REMOVED: dict[str, str] = {
    "amp": "use bf16, fp16 or torch_autocast",
    "nebula": "remove it: checkpoints go to the run's volume",
    "compression_training": "remove it: the compression library is gone",
    "quantize_training": "remove it: quantization while training is gone",
    "sparse_gradients": "remove it: gradients of sparse embeddings need no key",
    "eigenvalue": "remove it: quantization by eigenvalues is gone",
    "sparse_attention": "remove it, and use an attention of the model",
    "elasticity": "write the three batch keys",
    "graph_harvesting": "remove it",
    "curriculum_learning": "write data_efficiency.data_sampling.curriculum_learning",
    "progressive_layer_drop": "remove it",
    "zero_optimization/mics_shard_size": "remove it, or use zero_hpz_partition_size",
    "zero_optimization/mics_hierarchical_params_gather": "remove it",
    "zero_optimization/zeropp_loco_param": "remove it",
}
"""Key that release 0.19.8 refuses -> what to do."""


AUTO = "auto"
STAGES = (0, 1, 2, 3)


class Configuration(NamedTuple):
    """One file, and where its keys stand."""

    path: str
    content: dict[str, Any]
    locate: Locator

    def where(self, *keys: str) -> Where:
        """The place of a key, or of the file where it is a text."""
        return self.locate.run(pointer_to(("files", self.path, *keys)))

    def block(self, name: str) -> dict[str, Any]:
        """A mapping of the top level; empty where it is none."""
        value = self.content.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def zero(self) -> dict[str, Any]:
        return self.block("zero_optimization")

    @property
    def stage(self) -> object:
        """As it is written; DeepSpeed's default is 0."""
        return self.zero.get("stage", 0)


def deepspeed_files(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Every DeepSpeed configuration among the files of the run."""
    for path, written in context.run.files.items():
        content = _mapping(written)
        if "zero_optimization" not in content:
            continue
        configuration = Configuration(path, content, context.locate)
        yield from _batch(configuration, resolution.needs.world_size, resolution.needs.processes_per_node)
        yield from _stage(configuration, context)
        yield from _precision(configuration)
        yield from _keys(configuration)
        yield from _auto(configuration)


def _mapping(written: object) -> dict[str, Any]:
    """What a file holds as JSON; empty where it is no mapping."""
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except (ValueError, RecursionError):
            return {}
    return written if isinstance(written, dict) else {}


BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def _batch(configuration: Configuration, ranks: int, ranks_per_node: int) -> Iterator[Finding]:
    """What DeepSpeed makes of the three numbers (``_set_batch_related_parameters`` in deepspeed/runtime/config.py)."""
    stated = {key: configuration.content[key] for key in BATCH_KEYS if configuration.content.get(key) is not None}
    if AUTO in stated.values():
        return
    for key, value in stated.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield found("TW225", configuration.where(key), f"{key} is {json.dumps(value)}", "write a whole number of at least 1")
            return
    total, micro, accumulation = (stated.get(key) for key in BATCH_KEYS)
    if total is None:
        if micro is None:
            missing = "neither train_batch_size nor train_micro_batch_size_per_gpu is set"
            fix = "add train_micro_batch_size_per_gpu, the samples of one rank in one forward pass"
            yield found("TW225", configuration.where(), missing, fix)
        return
    if micro is not None:
        implied = accumulation or total // micro // ranks
        product = micro * implied * ranks
        if total == product:
            return
        if accumulation is None:
            yield _no_divisor(configuration, total, micro, implied, ranks)
        else:
            message = f"train_batch_size {total} is not micro {micro} x accumulation {implied} x {ranks} ranks = {product}"
            fix = f"write {product}, or remove it: DeepSpeed multiplies"
            yield found("TW222", configuration.where("train_batch_size"), message, fix)
        return
    steps = accumulation or 1
    micro = total // ranks // steps
    if total != micro * steps * ranks:
        yield _no_divisor(configuration, total, micro, steps, ranks)
        return
    nodes, breaks = ranks // ranks_per_node, ranks // ranks_per_node + 1
    while total % (breaks * ranks_per_node * steps) == 0:
        breaks += 1
    yield found(
        "TW223",
        configuration.where("train_batch_size"),
        f"train_batch_size {total} leaves each rank a micro batch of {micro} on {nodes} nodes, and DeepSpeed fails on {breaks}",
        f"write `train_micro_batch_size_per_gpu: {micro}` and `gradient_accumulation_steps: {steps}` instead",
    )


def _no_divisor(configuration: Configuration, total: int, micro: int, steps: int, ranks: int) -> Finding:
    product = f"micro {micro} x accumulation {steps} x {ranks} ranks = {micro * steps * ranks}"
    fix = "write train_micro_batch_size_per_gpu and gradient_accumulation_steps instead: DeepSpeed computes the product"
    where = configuration.where("train_batch_size")
    return found("TW222", where, f"train_batch_size {total} does not divide among the ranks: {product}", fix)


def _stage(configuration: Configuration, context: Context) -> Iterator[Finding]:
    """The stage against the topology, and the keys that it does not read."""
    stage, topology = configuration.stage, context.run.topology
    where = configuration.where("zero_optimization", "stage")
    if stage == AUTO:
        return
    if isinstance(stage, bool) or stage not in STAGES:
        yield found("TW225", where, f"zero_optimization.stage is {json.dumps(stage)}", "write 0, 1, 2 or 3")
        return
    planned = topology.stage if isinstance(topology, ZeRO) and topology.engine == "deepspeed" else 0
    if isinstance(topology, DDP | ZeRO) and stage != planned:
        other = f"kind: zero{stage}, engine: deepspeed" if stage else "kind: ddp"
        yield found(
            "TW222",
            where,
            f"the file says stage {stage}, and the plan is {topology.title}",
            f"write `topology: {{{other}, …}}`" + (f", or stage {planned} here" if planned else ""),
        )
    if stage != 3:
        for key in configuration.zero:
            if key in STAGE_3_KEYS:
                message = f"{key} is read in stage 3 only, and this is stage {stage}"
                yield found("TW227", configuration.where("zero_optimization", key), message, "remove it, or write stage 3")


def _precision(configuration: Configuration) -> Iterator[Finding]:
    bf16 = "bf16" if "bf16" in configuration.content else "bfloat16"
    if configuration.block("fp16").get("enabled") is True and configuration.block(bf16).get("enabled") is True:
        fix = f"turn one off: `{bf16}: {{enabled: false}}`, or fp16"
        yield found("TW225", configuration.where("fp16", "enabled"), f"fp16 and {bf16} are both enabled", fix)


def _keys(configuration: Configuration) -> Iterator[Finding]:
    for path, known in BLOCKS.items():
        for key in _block(configuration.content, path):
            pointer = f"{path}/{key}" if path else key
            where = configuration.where(*pointer.split("/"))
            if pointer in REMOVED:
                message = f"DeepSpeed 0.19.8 does not start with {pointer.replace('/', '.')}"
                yield found("TW227", where, message, REMOVED[pointer])
            elif pointer in REPLACED:
                yield found("TW227", where, f"{pointer.replace('/', '.')} is an old name, which DeepSpeed will drop",
                            f"write {REPLACED[pointer]}")
            elif key not in known:
                yield found("TW224", where, f"DeepSpeed does not know {pointer.replace('/', '.')}", _meant(path, key))


def _block(content: dict[str, Any], path: str) -> dict[str, Any]:
    node: Any = content
    for key in path.split("/") if path else ():
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _meant(path: str, key: str) -> str:
    """A key that is at home in another block, or one with a similar name."""
    homes = [other for other, known in BLOCKS.items() if key in known]
    if homes:
        return f"move it into {homes[0].replace('/', '.')}" if homes[0] else "move it to the top level"
    guess = closest(key, BLOCKS[path])
    return f"did you mean {guess}?" if guess else "remove it"


def _auto(configuration: Configuration) -> Iterator[Finding]:
    keys = list(_autos(configuration.content, ()))
    if not keys:
        return
    shown = ", ".join(".".join(key) for key in keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    yield found(
        "TW226",
        configuration.where(*keys[0]),
        f"{shown} {'is' if len(keys) == 1 else 'are'} auto, which only the Trainer of transformers fills in",
        "write the values; or waive this if the program is that Trainer",
    )


def _autos(node: object, keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if node == AUTO and keys[-1] != "keep_in_fp32_modules":
        yield keys
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _autos(value, (*keys, str(key)))


PLAN = (deepspeed_files,)
