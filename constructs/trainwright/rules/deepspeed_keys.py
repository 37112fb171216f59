"""The keys of DeepSpeed's configuration: those that release 0.19.8 reads, those with a new name, and those that it refuses.

From deepspeed/runtime/config.py, constants.py, precision_config.py, zero/config.py, zero/offload_config.py and the modules that
read a block of their own. A block whose keys are not listed is left to DeepSpeed. Inside a listed block an unknown key ends the
start of a run (``extra="forbid"`` in runtime/config_utils.py); at the top level it is passed over without a word.
"""

from __future__ import annotations

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
