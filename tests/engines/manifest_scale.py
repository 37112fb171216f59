"""Every override with which a manifest in dist/ is run on this machine. What is not named here is as it was committed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.engines.manifest_pods import Pod

Tree = dict[str, Any]

NODES = 2
"""Pods that hold ranks, of one process each."""
WORLD: Tree = {
    "world.nodes": NODES, "world.processes_per_node": 1, "world.replicas_per_process": None, "world.device": "cpu",
    "lifecycle.peer_wait_seconds": 120, "lifecycle.preflight": {"when": "always"},
}
"""Dotted path in run.json -> value; None takes the key out."""
TRAINING: Tree = {
    "work.duration": {"steps": 3}, "work.batch.micro": 2, "work.batch.accumulation": 2, "work.learning_rate.warmup_samples": 0,
    "work.evaluation.max_batches": 1, "work.log_every_steps": 1,
    "work.checkpoints.every_seconds": None, "work.checkpoints.every_steps": 2, "work.data.samples": None,
}
_LLAMA: Tree = {
    "work.model.hidden_size": 32, "work.model.intermediate_size": 64, "work.model.num_hidden_layers": 2,
    "work.model.num_attention_heads": 4, "work.model.num_key_value_heads": 2, "work.model.vocab_size": 400,
    "work.data.vocabulary": 400, "work.data.sequence_length": 32,
}
_BOOSTING: Tree = {
    "work.rounds": 6, "work.early_stopping_rounds": None, "work.log_every_steps": 2,
    "work.checkpoints.every_seconds": None, "work.checkpoints.every_steps": 2,
}
_RESNET: Tree = {
    "work.model.embedding_size": 8, "work.model.hidden_sizes": [16, 32], "work.model.depths": [1, 1],
    "work.model.image_size": 32, "work.model.num_labels": 4, "work.data.image_size": 32, "work.data.classes": 4,
}
SIZES: Mapping[str, Tree] = {
    "llama-finetune": TRAINING | _LLAMA,
    "roce-tuning": TRAINING | _LLAMA,
    "bert-finetune": TRAINING | {
        "work.model.hidden_size": 32, "work.model.intermediate_size": 64, "work.model.num_hidden_layers": 2,
        "work.model.num_attention_heads": 2, "work.model.vocab_size": 300, "work.data.max_length": 32,
        "work.batch.effective": 2 * 2 * NODES,
    },
    "ray-lm": TRAINING | _LLAMA,
    "resnet-train": TRAINING | _RESNET,
    "resnet50-imagenet": TRAINING | _RESNET,
    "spot-resnet": TRAINING | _RESNET,
    "stdlib-lm": TRAINING | {
        "work.model.hidden_size": 32, "work.model.intermediate_size": 64, "work.model.num_hidden_layers": 2,
        "work.data.sequence_length": 32, "work.data.files": 4,
    },
    "vit-horovod": TRAINING | {
        "work.model.hidden_size": 32, "work.model.intermediate_size": 64, "work.model.num_hidden_layers": 2,
        "work.model.num_attention_heads": 2, "work.model.image_size": 32, "work.model.patch_size": 8, "work.model.num_labels": 4,
        "work.data.image_size": 32, "work.data.classes": 4,
    },
    "xgboost-dist": _BOOSTING,
    "xgboost-trainjob": _BOOSTING,
    "hostnetwork-ddp": {},
    "nccl-training": {},
    "own-script": {},
    "volcano-lm": TRAINING | _LLAMA,
    "sdk-train": {},
    "sdk-train-one-node": {"world.nodes": 1, "world.processes_per_node": 2},
}
"""By run: a small model of the same architecture, small data of the same kind, a few steps."""
COMMAND: Mapping[str, Callable[[str], str]] = {
    "-np": lambda _: str(NODES),
    "btl_tcp_if_include": lambda _: "lo",
}
"""Option of mpirun -> what becomes of the word after it."""
VARIABLES: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "-1", "DS_ACCELERATOR": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2",  # no GPU
    "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo",  # no eth0
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",  # user 1000 in a pod
}
"""What a pod's environment has here, whatever the manifest says."""


def nodes(run: str) -> int:
    """Pods that hold its ranks here."""
    return int(SIZES[run].get("world.nodes", NODES))


def specification(run: str, document: Tree, port: Callable[[int], int]) -> Tree:
    """The run's specification at the size of this machine, with ports that are free here."""
    small = copy.deepcopy(document)
    for path, value in {**WORLD, **SIZES[run]}.items():
        _set(small, path, value)
    world = small["world"]
    small["http_port"] = port(small["http_port"])
    for part, key in ((world, "control_port"), (world["rendezvous"], "port")):
        if key in part:
            part[key] = port(part[key])
    return small


def deepspeed(text: str, small: Tree) -> str:
    """ds_config.json with the batch of the small run. Communication does not overlap: gloo knows no streams."""
    batch = small["work"]["batch"]
    document: Tree = json.loads(text)
    document |= {
        "train_batch_size": batch["micro"] * batch["accumulation"] * NODES, "train_micro_batch_size_per_gpu": batch["micro"],
        "gradient_accumulation_steps": batch["accumulation"],
    }
    document["zero_optimization"]["overlap_comm"] = False
    return json.dumps(document)


def hosts(text: str, pods: Sequence[Pod]) -> str:
    """A host file with the hosts that run here, of one slot each."""
    here = {host for pod in pods for host in pod.hosts}
    return "".join(f"{line.split()[0]} slots=1\n" for line in text.splitlines() if line.split()[0] in here)


def command(words: list[str]) -> list[str]:
    """A pod's command at the size of this machine."""
    before = ["", *words]
    return [COMMAND[last](word) if last in COMMAND else word for last, word in zip(before, words, strict=False)]


def _set(document: Tree, path: str, value: Any) -> None:
    *parents, key = path.split(".")
    for parent in parents:
        if parent not in document:
            return
        document = document[parent]
    if value is None:
        document.pop(key, None)
    else:
        document[key] = value
