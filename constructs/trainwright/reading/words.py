"""Words that people bring from manifests, charts and launchers: what each is here, and the line to write instead.

The words are those of Kubernetes and Kubeflow, Helm charts, TorchX, SkyPilot, accelerate, DeepSpeed's configuration, Ray and
the Trainer of Hugging Face. A word that is only misspelt needs no row: what is nearly right is proposed without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from trainwright.findings.locate import dotted
from trainwright.reading.scalar import Scalar, ScalarError, read_scalar
from trainwright.reading.shape import Home, Keys
from trainwright.units import literal


class Word(NamedTuple):
    """One row: words that mean the same, where they are met, and what to write instead."""

    at: str
    """The end of the path of the mapping that has the word as a key, or of the key that has it as a value: ``<name>`` for a key
    of the user's own. Empty where the word means the same in every mapping, ``/`` for the top level.
    """
    words: str
    """With commas between them. They are compared without upper case, dashes and underscores. A value may be told by its type:
    text, number, list, mapping.
    """
    here: str
    """What it is here."""
    write: str = ""
    """Lines in backticks, where there is anything to write; ``or`` stands between those of which one is enough. ``KEY`` is the
    user's own key, and ``<8>`` what the user wrote, where that has the form of the example.
    """
    to: str | None = None
    """The mapping of the lines; default: the one that has the word. ``..`` is the one above it."""

    def lines(self, key: str, value: object) -> str:
        """``write``, with the user's key and value in their places."""
        return re.sub(r"<([^>]*)>", lambda part: _filled(part[1], value), self.write).replace("KEY", key)

    def fix(self, place: Keys, value: object) -> str:
        """What to write in place of a key or value, in words."""
        if not self.write:
            return "remove it"
        there = self._there(place)
        prefix = "" if there == place[:-1] else f"in `{dotted(there)}`, " if there else "at the top level, "
        return f"{prefix}write {self.lines(str(place[-1] if self.to != '..' else place[-2]), value)}"

    def stated(self, place: Keys) -> frozenset[Keys]:
        """The keys that the lines have."""
        return frozenset((*self._there(place), line.partition(":")[0]) for line in re.findall("`([^`]+)`", self.write))

    def _there(self, place: Keys) -> Keys:
        """Where the lines stand."""
        if self.to is None:
            return place[:-1]
        return place[:-2] if self.to == ".." else tuple(self.to.split(".")) if self.to else ()


def _filled(example: str, value: object) -> str:
    return literal(value) if _form(value) == _form(_read(example)) else example


def _read(text: str) -> Scalar:
    try:
        return read_scalar(text)
    except ScalarError:
        return text


def _form(value: object) -> str:
    """What kind of thing a value is; empty for what no line can hold as it is."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if not isinstance(value, str):
        return type(value).__name__
    forms = {"amount": r"[0-9.]+[kKMGTP]i?", "path": r"/[\w./-]*\w", "name": r"[a-z]([-a-z0-9]*[a-z0-9])?"}
    return next((name for name, form in forms.items() if re.fullmatch(form, value)), "")


_SCRIPT = "`workload: {kind: script, command: [python, /app/train.py]}`"
_MOUNT = "`mounts: {/checkpoints: {claim: <training-checkpoints>}}`"
_DDP = "`topology: {kind: ddp, nodes: 2, gpus_per_node: 8}`"
_ELASTIC = "`elastic: {min_nodes: 1, max_nodes: 4}`"
_OF_TRAINER = "our trainer has it in `workload`, and a script takes it as an argument of its own"
_LIBRARY = "a method of fine-tuning is your program's own, with a library such as peft or TRL"
_ITS_RANKS = "a program that splits a model by itself gets its ranks as ddp does"
_TORCH = "who starts the ranks of PyTorch is no topology; without sharding it is ddp"
_ZERO = "ZeRO is a topology, of which DeepSpeed and FSDP2 are engines"
_RANKS_MEET = "the plan decides how ranks find each other, and every pod is told"
_MXNET = "MXNet was retired to the Apache Attic in 2023, and the Kubeflow Training Operator dropped MXJob"

_KEYS_OF_RUN = (
    # How many.
    Word("", "gpus, gpu, num_gpus, ngpus, num_gpus_per_node, gpus_per_worker, gpu_count, gpus_per_pod, gpus_per_replica, nproc, "
         "nproc_per_node, num_proc_per_node, procs_per_node, devices_per_node, slots_per_worker, nvidia.com/gpu, accelerators, "
         "accelerator", "GPUs are counted per node", "`gpus_per_node: <8>`", "topology"),
    Word("", "replicas, num_replicas, replica_count, num_nodes, nnodes, num_machines, machines, workers, num_workers, "
         "worker_replicas, worker, master, parallelism, completions, num_hosts", "a run has nodes", "`nodes: <2>`", "topology"),
    Word("roles.<name>", "replicas, num_replicas, replica_count, count, nodes", "a further role has pods", "`pods: <1>`"),
    Word("", "num_processes, world_size, np, ranks, num_ranks, total_gpus", "ranks are nodes times GPUs of a node",
         "`nodes: 2` and `gpus_per_node: 8`", "topology"),
    Word("", "elastic, elastic_policy, min_replicas, max_replicas, min_workers, max_workers, replica_range",
         "how far a run may shrink is of its topology, on target pytorch-job", _ELASTIC, "topology"),
    Word("topology.elastic", "min, minimum, min_replicas, min_workers, min_size, lower, from", "it counts nodes",
         "`min_nodes: <1>`"),
    Word("topology.elastic", "max, maximum, max_replicas, max_workers, max_size, upper, to", "it counts nodes",
         "`max_nodes: <4>`"),
    # How it is split.
    Word("", "deepspeed, deepspeed_config, ds_config, zero, zero_stage, zero_optimization", _ZERO,
         "`kind: zero3` and `engine: deepspeed`", "topology"),
    Word("topology", "stage", _ZERO, "`kind: zero3` and `engine: deepspeed`"),
    Word("", "fsdp, fsdp2, fsdp_config, fsdp_plugin, sharding, sharding_strategy", _ZERO, "`kind: zero3` and `engine: fsdp2`",
         "topology"),
    Word("", "tensor_parallel, tensor_parallel_size, pipeline_parallel, pipeline_parallel_size, model_parallel, "
         "expert_parallel, context_parallel, tp, pp", _ITS_RANKS, _SCRIPT, ""),
    Word("", "strategy, distributed_type, distributed_backend, framework, distributed, torchrun, accelerate, launcher",
         "the processes of a run are its topology", _DDP, ""),
    Word("", "machine_rank, node_rank, master_addr, master_port, main_process_ip, main_process_port, rdzv_backend, "
         "rdzv_endpoint, rdzv_id, hostfile, coordinator_address", _RANKS_MEET),
    # What runs.
    Word("/", "command, cmd, args, entrypoint, script, program, python_script, training_script",
         "what the processes do is the workload", f"{_SCRIPT} for a process a GPU, or "
         "`workload: {kind: command, command: [torchrun, /app/train.py]}` for one a pod", ""),
    Word("workload", "script, entrypoint, cmd, program, python_script, module, main, file, run",
         "program and arguments are one list", "`command: [python, /app/train.py]`"),
    Word("", "lora, qlora, peft, peft_config, adapter, sft, trl, dpo, rlhf, grpo, finetune, fine_tuning, quantization", _LIBRARY,
         _SCRIPT, ""),
    Word("", "workdir, cwd, working_directory", "it is of the workload", "`working_dir: </app>`", "workload"),
    Word("/", "working_dir", "it is of the workload", "`working_dir: </app>`", "workload"),
    Word("/", "setup, pip, conda, requirements, dependencies, packages", "what a program needs is built into its image"),
    Word("/", "metadata, spec, name, job_name, run_name, experiment", "a run is no manifest, and its name is `run`",
         "`run: <my-run>`"),
    Word("/", "api_version, kind", "a run is no manifest, and the kind of object that carries it is its target",
         "`target: indexed-job`"),
    # How it trains.
    Word("batch", "global, global_size, global_batch, global_batch_size, size, total, batch_size, train_batch_size, effective",
         "the whole batch is micro x accumulation x ranks", "`micro: 8` and `accumulation: 2`"),
    Word("batch", "per_device, per_gpu, per_rank, local, micro_batch, micro_batch_size, per_device_train_batch_size",
         "the samples of one rank at a time are `micro`", "`micro: <8>`"),
    Word("batch", "accum, grad_accum, gradient_accumulation, gradient_accumulation_steps, accumulate", "it is `accumulation`",
         "`accumulation: <2>`"),
    Word("", "batch_size, global_batch, global_batch_size, train_batch_size, micro_batch_size, per_device_batch_size, "
         "per_device_train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps, grad_accum, "
         "accumulate_grad_batches", "the whole batch is micro x accumulation x ranks", "`batch: {micro: 8, accumulation: 2}`",
         ""),
    Word("learning_rate", "lr, value, rate, peak, max, max_lr", "the rate after warm-up is `base`", "`base: <3e-4>`"),
    Word("", "lr, max_lr, peak_lr", "the learning rate has parts", "`learning_rate: {base: <3e-4>}`", ""),
    Word("", "warmup, warmup_ratio, warmup_iters, num_warmup_steps", "warm-up is counted in steps of the optimizer",
         "`warmup_steps: 200`", "learning_rate"),
    Word("", "num_epochs, max_epochs, num_train_epochs", _OF_TRAINER, "`epochs: <3>`", "workload"),
    Word("", "max_steps, num_steps, total_steps, train_iters, max_train_steps", _OF_TRAINER, "`steps: <1000>` and `epochs: null`",
         "workload"),
    Word("", "mixed_precision, bf16, fp16, dtype, torch_dtype, amp", _OF_TRAINER, "`precision: bf16`", "workload"),
    Word("", "gradient_checkpointing, activation_checkpoint, recompute", _OF_TRAINER, "`activation_checkpointing: true`",
         "workload"),
    Word("", "max_grad_norm, gradient_clipping, grad_clip, clip_grad", _OF_TRAINER, "`clip_norm: <1.0>`", "workload"),
    Word("", "lr_scheduler, lr_scheduler_type, lr_schedule", _OF_TRAINER, "`schedule: cosine`", "workload"),
    Word("", "report_to, logger, loggers, log_with, wandb, tensorboard", _OF_TRAINER, "`metrics: [{to: tensorboard}]`",
         "workload"),
    # What it saves.
    Word("checkpoints", "path, dir, directory, folder, output_dir, location", "checkpoints go below a mount",
         "`mount: </checkpoints>`"),
    Word("checkpoints", "interval, frequency, period, save_interval, save_every", "it counts time or steps",
         "`every: 30m` or `every_steps: 500`"),
    Word("checkpoints", "steps, save_steps, every_n_steps, step", "it is how often to save", "`every_steps: <500>`"),
    Word("checkpoints", "s3, bucket, uri, url", "an object store takes the place of a mount", "`store: s3://bucket/prefix`"),
    Word("checkpoints", "max_to_keep, keep_last, save_total_limit, limit, num_to_keep", "it is how many to keep", "`keep: <3>`"),
    Word("", "output_dir, checkpoint_dir, checkpoint_path, ckpt_dir, ckpt_path, save_dir",
         "checkpoints go below the mount /checkpoints, into a folder that the plan names", _MOUNT, ""),
    Word("", "save_steps, save_interval, checkpoint_interval, ckpt_interval", "how often to save is of the checkpoints",
         "`every_steps: <500>`", "checkpoints"),
    Word("", "save_total_limit, max_to_keep, keep_last", "how many to keep is of the checkpoints", "`keep: <3>`", "checkpoints"),
    Word("", "resume_from_checkpoint, auto_resume", "a run resumes by itself", "`resume: auto`", "checkpoints"),
    # What a program finds around it.
    Word("mounts.<name>", "pvc, pvc_name, persistent_volume_claim, claim_name, existing_claim, volume_claim, name",
         "a claim is named", "`claim: <training-checkpoints>`"),
    Word("mounts.<name>", "empty_dir, tmpfs, size, size_limit, medium, local, ram", "space that goes with the pod is scratch",
         "`scratch: <100Gi>`"),
    Word("mounts.<name>", "source, s3, bucket, gcs, uri, url", "a bucket is fetched to a claim, which `prepare` says",
         "`claim: training-checkpoints`"),
    Word("/", "dataset, datasets, dataset_path, data_dir, train_data", "data lies on a mount, whose path a script is told",
         "`mounts: {/data: {claim: <training-checkpoints>}}`"),
    Word("", "pvc, pvcs, pvc_name, persistent_volume_claim, claim, claim_name, existing_claim, volumes, volume, volume_mounts, "
         "volume_claim_templates, mount, file_mounts, storage_mounts, storage", "what is mounted stands at its path", _MOUNT, ""),
    Word("env.<name>", "value_from, secret_key_ref, secret_ref, secret_name, from_secret",
         "a value from elsewhere is named by where it is", "`secret: hugging-face` and `key: token`, or "
         "`config_map: settings` and `key: level`, or `field: status.podIP`"),
    Word("env.<name>", "config_map_key_ref, config_map_ref, config_map_name", "it is a key of a ConfigMap",
         "`config_map: settings` and `key: level`"),
    Word("env.<name>", "field_ref, field_path", "it is a field of the pod", "`field: status.podIP`"),
    Word("env.<name>", "value, default", "text stands at the variable", "`KEY: <info>`", ".."),
    Word("", "envs, environment, environment_variables, env_vars, extra_env, extra_envs, secrets, secret",
         "variables are `env`, those from Secrets too", "`env: {LEVEL: info, HF_TOKEN: {secret: hugging-face, key: token}}`", ""),
    Word("", "init_containers, sidecars, sidecar, extra_containers", "other containers are one list",
         "`containers: [{name: relay, kind: sidecar, image: registry.example.com/relay:1.0, command: [relay], cpu: 1, "
         "memory: 1Gi}]`", ""),
    # What a pod asks for, and where it goes.
    Word("resources", "limits, limit", "an amount is request and limit at once; GPUs are of the topology",
         "`cpu: 16` and `memory: 64Gi`"),
    Word("resources", "mem, ram, memory_gb, mem_mb, memory_mb", "memory is an amount with its unit", "`memory: <64Gi>`"),
    Word("/", "limits, limit, requests", "an amount is request and limit at once; GPUs are of the topology",
         "`cpu: 16` and `memory: 64Gi`", "resources"),
    Word("", "cpus, num_cpus, cpus_per_pod", "a pod's share of the node is `resources`", "`cpu: <16>`", "resources"),
    Word("", "mem, ram", "a pod's share of the node is `resources`", "`memory: <64Gi>`", "resources"),
    Word("", "shm, shm_size, dshm, ipc, host_ipc, ipc_mode", "what lies in /dev/shm is shared memory",
         "`shared_memory: <16Gi>`", "resources"),
    Word("", "disk, disk_size, storage_size", "it is ephemeral storage", "`ephemeral_storage: <200Gi>`", "resources"),
    Word("", "rdma, infiniband, efa, vpc.amazonaws.com/efa, network_tier", "adapters are of the pool, and come with its GPUs"),
    Word("", "node_selector, node_labels, affinity, instance_type, machine_type, nodepool",
         "nodes are chosen by pool or by label",
         "`node_pool: <h100>`, or `node_affinity: {required: [{key: example.com/disk, operator: In, values: [nvme]}]}`", ""),
    Word("/", "gpu_type, cloud, zone, region, infra", "machines are pools of the profile", "`node_pool: h100`"),
    Word("/", "template, pod_template, pod_spec, node_name, dns_policy, dns_config",
         "what no key says of pods is an override of a role",
         "`overrides: {pod: {node: {dnsConfig: {searches: [example.com]}}}}`"),
    Word("", "tolerations, toleration, taints", "a run tolerates the taints of its pool; any other is an override of a role",
         "`node_pool: h100`, or `overrides: {pod: {node: {tolerations: [{key: example.com/a, operator: Exists}]}}}`", ""),
    Word("", "use_spot, spot, preemptible, capacity_type", "spot machines are a pool of the profile", "`node_pool: h100-spot`",
         ""),
    Word("", "pod_affinity, pod_anti_affinity, anti_affinity, topology_spread_constraints", "how pods lie is their placement",
         "`placement: {one_per_node: true}`", ""),
    Word("", "service_account_name, sa", "it is `service_account`", "`service_account: <trainer>`", ""),
    Word("", "security_context, pod_security_context, run_as_user, run_as_non_root, uid", "who the processes are is `security`",
         "`security: {user: <1000>}`", ""),
    Word("security", "run_as_user, uid", "it is `user`", "`user: <1000>`"),
    Word("security", "run_as_group, gid", "it is `group`", "`group: <1000>`"),
    Word("", "queue_name, local_queue, kueue, kueue.x-k8s.io/queue-name, suspend", "Kueue admits what names a queue",
         "`queue: <training>`", ""),
    Word("", "priority_class_name, priority_class, pod_priority", "it is `priority`", "`priority: <training-high>`", ""),
    Word("", "scheduler_name, gang_scheduling, min_available, min_member, pod_group, scheduling_policy",
         "the scheduler is the profile's, and pods start together", "`gang: true`", ""),
    # How it ends.
    Word("/", "backoff_limit, max_retries, retries, max_restarts, restart_policy, retry_policy, max_failures",
         "failures that count are `restarts`", "`restarts: <3>`", ""),
    Word("/", "active_deadline_seconds, timeout, time_limit, max_duration, max_time, walltime",
         "a script's or command's is `deadline`",
         "`deadline: 2d`", ""),
    Word("/", "termination_grace_period_seconds, termination_grace_period, grace_period, stop_timeout",
         "a script's or command's is `grace`; our trainer's follows from its checkpoints", "`grace: 5m`", ""),
    Word("/", "ttl_seconds_after_finished, clean_pod_policy, run_policy",
         "a run that has ended stays, or Argo CD would make it anew"),
)
_VALUES_OF_RUN = (
    Word("topology.kind", "fsdp, fsdp1, fsdp2, hsdp, fully-sharded-data-parallel", _ZERO, "`kind: zero3` and `engine: fsdp2`"),
    Word("topology.kind", "deepspeed, ds, zero, zero-stage-3, deepspeed-zero, deepspeed-zero-3",
         _ZERO, "`kind: zero3` and `engine: deepspeed`"),
    Word("topology.kind", "pytorch, torch, torchrun, torch-distributed, torchx, distributed, data-parallel, dp, single, "
         "single-node, accelerate, lightning, hugging-face, hf, transformers, trainer, trl, composer, axolotl, pytorchjob",
         _TORCH, "`kind: ddp`"),
    Word("topology.kind", "elastic, torchelastic", "ddp and ZeRO can be elastic, on target pytorch-job",
         f"`kind: ddp` and {_ELASTIC}"),
    Word("topology.kind", "megatron, megatron-lm, nemo, tensor-parallel, pipeline-parallel, tp, pp, 3d",
         _ITS_RANKS, "`kind: ddp`"),
    Word("topology.kind", "tensorflow, tf, tfjob, keras, mirrored", "it is named after the strategy",
         "`kind: multi-worker-mirrored`"),
    Word("topology.kind", "mpirun, openmpi, mpijob, mpi4py", "mpirun's is `mpi`, on target mpi-job", "`kind: mpi`"),
    Word("topology.kind", "ray-train, rayjob, raycluster", "Ray's is `ray`, on target ray-job",
         "`kind: ray` and `version: 2.46.0`"),
    Word("topology.kind", "jaxjob, flax", "JAX's is `jax`", "`kind: jax`"),
    Word("topology.kind", "none, job, batch, array, sweep, embarrassingly-parallel", "pods without ranks are independent",
         "`kind: independent`"),
    Word("topology.kind", "mxnet, mxjob", _MXNET, "`kind: ddp`"),
    Word("topology.elastic", "text, list, number, true", "an elastic run has limits, on target pytorch-job", _ELASTIC),
    Word("target", "mxnet, mxjob", _MXNET, _DDP),
    Word("target", "kubeflow, training-operator, torch", "the Training Operator has a kind for each framework",
         "`target: pytorch-job`"),
    Word("target", "kubernetes, k8s, batch, batch/job, job, plain, none", "Kubernetes' own is the Indexed Job",
         "`target: indexed-job`"),
    Word("target", "trainer, kubeflow-trainer, training-runtime", "Kubeflow Trainer's is the TrainJob", "`target: train-job`"),
    Word("target", "kueue", "Kueue admits runs of any target", "`queue: training`"),
    Word("workload", "text, list", "a workload has a kind", _SCRIPT),
    Word("workload.kind", "python, torchrun, torch, pytorch, training, train, program, module, custom, accelerate, lightning, "
         "hugging-face, hf, transformers, deepspeed", "a program with a process for each rank is a script", "`kind: script`"),
    Word("workload.kind", "lora, qlora, peft, sft, dpo, trl, finetune, fine-tuning, rlhf, grpo", _LIBRARY,
         "`kind: script`"),
    Word("workload.kind", "container, image, entrypoint, bash, sh, shell, exec", "what starts by itself in each pod is a command",
         "`kind: command`"),
    Word("workload.task", "lora, qlora, peft, sft, dpo, finetune, fine-tuning, instruction-tuning, rlhf, grpo", _LIBRARY,
         _SCRIPT, ""),
    Word("workload.task", "clm, llm, language-modeling, pretrain, pretraining, text-generation", "it is named after its loss",
         "`task: causal-lm`"),
    Word("batch", "number", "a batch has parts: micro x accumulation x ranks", "`batch: {micro: <8>}`"),
    Word("learning_rate", "number", "the rate has parts", "`learning_rate: {base: <3e-4>}`"),
    Word("checkpoints", "text", "checkpoints have a place", "`checkpoints: {mount: </checkpoints>}`"),
    Word("mounts", "list, text", "what is mounted stands at its path", _MOUNT),
    Word("mounts.<name>", "text, number, true, list", "a mount says what is there: a claim, scratch space or another volume",
         "`KEY: {claim: <training-checkpoints>}` for a claim of the namespace, or `KEY: {scratch: <100Gi>}` for space that goes "
         "with the pod, or `KEY: {config_map: <settings>}`, or `KEY: {secret: <settings>}`"),
    Word("env", "list", "a variable stands at its name", "`env: {LEVEL: info, HF_TOKEN: {secret: hugging-face, key: token}}`"),
    Word("image", "mapping", "an image is one text, with its digest", "`image: registry.example.com/trainer@sha256:DIGEST`"),
    Word("queue", "mapping", "a queue is named", "`queue: training`"),
    Word("labels", "list, text", "a label has a value", "`labels: {example.com/project: llama}`"),
    Word("gang", "mapping", "the scheduler is the profile's, and pods start together", "`gang: true`"),
    Word("priority", "number, mapping", "a PriorityClass is named", "`priority: training-high`"),
    Word("service_account", "mapping", "a service account is named", "`service_account: trainer`"),
    Word("ports", "list, number", "a port has a name", "`ports: {dashboard: 8080}`"),
)
_KEYS_OF_CLUSTER = (
    Word("/", "name", "a profile's name is `cluster`", "`cluster: <prod>`"),
    Word("/", "version, kubernetes_version, k8s, k8s_version", "it is Kubernetes' release", '`kubernetes: "1.34"`'),
    Word("/", "pools, nodes, node_groups, instance_groups", "machines are pools of nodes",
         "`node_pools: {cpu: {cpus: 64, memory: 256Gi}}`"),
    Word("node_pools.<name>", "gpus, gpu_count, num_gpus, accelerator, accelerators, nvidia.com/gpu", "GPUs are counted per node",
         "`gpu: {model: H100, memory: 80Gi, per_node: <8>}`"),
    Word("node_pools.<name>", "count, size, replicas, num_nodes, max_nodes, max_size", "it is how many nodes there may be",
         "`nodes: <16>`"),
    Word("node_pools.<name>", "mem, ram", "it is the memory of a node", "`memory: <2000Gi>`"),
    Word("node_pools.<name>", "node_selector, selector, node_labels, instance_type, machine_type", "nodes are known by labels",
         "`labels: {node.kubernetes.io/instance-type: <h100x8>}`"),
    Word("node_pools.<name>", "tolerations, toleration", "runs tolerate the taints of their pool",
         "`taints: [{key: nvidia.com/gpu}]`"),
    Word("node_pools.<name>", "network, rdma, infiniband, efa, interconnect", "the network between nodes is the fabric",
         "`fabric: {kind: tcp, gigabits_per_link: 25}`"),
    Word("namespaces.<name>", "pvc, pvcs, volumes, persistent_volume_claims, storage", "claims are listed by name",
         "`claims: {dataset: {managed: false, access: ReadOnlyMany}}`"),
)
_VALUES_OF_CLUSTER = (
    Word("node_pools.<name>.gpu", "number, text", "GPUs have a model and memory",
         "`gpu: {model: H100, memory: 80Gi, per_node: <8>}`"),
)
KEYS: Mapping[str, tuple[Word, ...]] = {"Run": _KEYS_OF_RUN, "Defaults": _KEYS_OF_RUN, "Cluster": _KEYS_OF_CLUSTER}
"""Title of a document's model -> words that are no keys of it."""
VALUES: Mapping[str, tuple[Word, ...]] = {"Run": _VALUES_OF_RUN, "Defaults": _VALUES_OF_RUN, "Cluster": _VALUES_OF_CLUSTER}
"""The same of words that are no values."""
TYPES: Mapping[type, str] = {
    str: "text", bool: "true", int: "number", float: "number", list: "list", tuple: "list", dict: "mapping",
}  # fmt: skip
"""Of a value -> its name in a row."""


def key_word(title: str, keys: Keys) -> Word | None:
    """What the last key is here, which its mapping does not know."""
    return _nearest(KEYS.get(title, ()), keys[:-1], _same(str(keys[-1])))


def value_word(title: str, keys: Keys, value: object) -> Word | None:
    """What a wrong value is here: by what it says, or by its type."""
    said = _same(literal(value)) if isinstance(value, str | bool) else ""
    rows = VALUES.get(title, ())
    return _nearest(rows, keys, said) or _nearest(rows, keys, _type_of(value))


def _type_of(value: object) -> str:
    return "mapping" if isinstance(value, Mapping) else TYPES.get(type(value), "")


def _nearest(rows: tuple[Word, ...], keys: Keys, word: str) -> Word | None:
    """The row of a word whose place says most."""
    found = [row for row in rows if word in _words(row) and _is_at(row.at, keys)]
    return max(found, key=lambda row: len(row.at), default=None)


@cache
def _words(row: Word) -> frozenset[str]:
    return frozenset(map(_same, row.words.split(",")))


def _same(word: str) -> str:
    return word.strip().lower().replace("-", "").replace("_", "").replace(" ", "")


def _is_at(place: str, keys: Keys) -> bool:
    if place == "/":
        return not keys
    path = tuple(place.split(".")) if place else ()
    return len(path) <= len(keys) and Home(path).is_at(keys[len(keys) - len(path):])
