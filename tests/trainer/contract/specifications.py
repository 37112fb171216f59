"""A small valid specification, and how to change it at a path."""

from __future__ import annotations

import copy
from typing import Any

LLAMA = {
    "architecture": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
BERT = LLAMA | {"architecture": "bert", "vocab_size": 300}
RESNET = {
    "architecture": "resnet", "num_channels": 1, "hidden_sizes": [8], "depths": [1], "layer_type": "basic", "image_size": 8,
    "num_labels": 10,
}
TABLE = {"source": "table", "format": "csv", "path": "/data/rows.csv", "label": "y"}
BOOSTING = {
    "kind": "xgboost", "booster": {"objective": "binary:logistic"}, "data": TABLE, "rounds": 20,
    "checkpoints": {"directory": "/checkpoints/x", "every_steps": 5},
}
SCRIPT = {"kind": "script", "command": ["python", "train.py"]}
STATIC = {"kind": "static", "host": "run-0", "port": 29500}
C10D = {"kind": "c10d", "host": "run-0", "port": 29500, "min_nodes": 1, "max_nodes": 4}
MPI = {"kind": "mpi-hostfile", "role_env": "K_MPI_JOB_ROLE", "hostfile": "/etc/mpi/hostfile"}
TRACKER = {"kind": "dmlc-tracker", "host": "run-0", "port": 29500}
TF_CONFIG, RAY = {"kind": "tf-config"}, {"kind": "ray-head"}
ELASTIC_BATCH = {"micro": 4, "accumulation": 2, "keep": "effective", "effective": 32}

BASE: dict[str, Any] = {
    "run": "small", "identity": "small-1a2b3c4d",
    "world": {
        "nodes": 2, "processes_per_node": 2, "device": "cpu", "node_index_env": "NODE_INDEX", "rendezvous": STATIC,
        "control_port": 29400,
    },
    "lifecycle": {"grace_seconds": 60},
    "http_port": 9400,
    "work": {
        "kind": "trainer", "engine": "ddp", "task": "causal-lm", "model": LLAMA, "data": {"source": "python-stdlib"},
        "batch": {"micro": 4, "accumulation": 2}, "optimizer": {"kind": "adamw"}, "learning_rate": {"peak": 0.001},
        "duration": {"steps": 10}, "checkpoints": {"directory": "/checkpoints/small"},
    },
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """``BASE`` with the value at each dotted path replaced; None removes the key."""
    document = copy.deepcopy(BASE)
    for path, value in changes.items():
        *parents, last = path.split(".")
        part = document
        for key in parents:
            part = part.setdefault(key, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return document
