"""The text of a new run: where one begins to edit."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from trainwright.cluster import Cluster
from trainwright.reading.scalar import read_scalar

TOPOLOGIES = {
    "ddp": "kind: ddp",
    "fsdp2": "kind: zero3, engine: fsdp2",
    "deepspeed": "kind: zero3, engine: deepspeed",
    "horovod": "kind: horovod",
    "multi-worker-mirrored": "kind: multi-worker-mirrored",
    "xgboost": "kind: xgboost",
    "ray": "kind: ray, version: 2.60.0",
    "parameter-server": "kind: parameter-server",
    "jax": "kind: jax",
    "mpi": "kind: mpi",
    "independent": "kind: independent",
}
"""What one asks for -> how it is written; Ray in the release that our trainer asks for."""
ONLY_COMMANDS = ("parameter-server", "jax", "mpi", "independent")
"""Those under which only a command fits."""
WORKLOADS = ("trainer", "script", "command")
"""Our trainer, one's own program in each rank, or a command that starts the ranks itself."""

_DIGITS = """\
batch: {micro: 8}
learning_rate: {base: 1e-3, warmup_steps: 20}
workload:
  kind: trainer
  task: image-classification
  model: {architecture: vit, image_size: 8, patch_size: 2, num_channels: 1, hidden_size: 64, intermediate_size: 128,
          num_hidden_layers: 2, num_attention_heads: 4, num_labels: 10}
  data: {source: digits}
  epochs: 20
checkpoints: {every_steps: 200}
"""
"""Images that every machine has."""
_TREES = """\
workload:
  kind: boosting
  booster: {objective: "binary:logistic"}
  data: {source: table, format: parquet, path: /checkpoints/data/train, label: label}
  rounds: 100
"""
_USER = "security: {user: 1000}\n"


@dataclass(frozen=True, slots=True)
class Starter:
    """What differs from one new run to the next."""

    name: str
    team: str
    cluster: str
    namespace: str
    image: str
    claim: str | None
    """For checkpoints; None where the namespace has none that can be written."""
    nodes: int
    gpus: int
    """On each node."""
    topology: str = "ddp"
    """One of :data:`TOPOLOGIES`."""
    workload: str = "trainer"
    """One of :data:`WORKLOADS`."""
    target: str | None = None
    """None: the profile's default."""


def trainer_image(profile: Cluster) -> str:
    """Where a team would push it: there is no image of ours to pull."""
    registry = profile.registries[0] if profile.registries else "registry.example.com"
    return f"{registry}/trainwright/trainer:latest"


def starter_text(starter: Starter) -> str:
    """A run in YAML; whether it compiles is the cluster's to say."""
    target = f"target: {starter.target}\n" if starter.target else ""
    mounts = f"mounts:\n  /checkpoints: {{claim: {_scalar(starter.claim)}}}\n" if starter.claim else ""
    return f"""\
run: {_scalar(starter.name)}
team: {_scalar(starter.team)}
namespace: {_scalar(starter.namespace)}
cluster: {_scalar(starter.cluster)}
{target}image: {_scalar(starter.image)}
topology: {{{TOPOLOGIES[starter.topology]}, nodes: {starter.nodes}, gpus_per_node: {starter.gpus}}}
{_work(starter)}{mounts}"""


def _work(starter: Starter) -> str:
    if starter.workload == "trainer":
        return _TREES if starter.topology == "xgboost" else _DIGITS
    return f"workload: {{kind: {starter.workload}, command: [{_command(starter)}]}}\n{_USER}"


def _command(starter: Starter) -> str:
    """The words of a program that stands for one's own."""
    if starter.topology == "mpi":
        return f'mpirun, -np, "{starter.nodes * max(starter.gpus, 1)}", --hostfile, /etc/mpi/hostfile, /app/program'
    starts_ranks = starter.workload == "command" and starter.topology in ("ddp", "fsdp2", "deepspeed")
    return f"{'torchrun' if starts_ranks else 'python'}, /app/train.py"


def _scalar(text: str) -> str:
    """Plain where YAML reads it back as this very text, in quotes otherwise."""
    plain = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_./:@-]*[A-Za-z0-9])?", text) and isinstance(read_scalar(text), str)
    return text if plain else json.dumps(text, ensure_ascii=False)
