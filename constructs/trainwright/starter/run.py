"""The text of a new run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from trainwright.scalar import read_scalar


@dataclass(frozen=True, slots=True)
class Starter:
    """What differs from one new run to the next."""

    name: str
    team: str
    cluster: str
    namespace: str
    image: str
    claim: str
    nodes: int
    gpus: int


def starter_text(starter: Starter) -> str:
    """A run of our trainer on the digits that every machine has; model, data and batch are where one begins to edit."""
    return f"""\
run: {_scalar(starter.name)}
team: {_scalar(starter.team)}
namespace: {_scalar(starter.namespace)}
cluster: {_scalar(starter.cluster)}
image: {_scalar(starter.image)}
topology: {{kind: ddp, nodes: {starter.nodes}, gpus_per_node: {starter.gpus}}}
batch: {{micro: 8}}
learning_rate: {{base: 1e-3, warmup_steps: 20}}
workload:
  kind: trainer
  task: image-classification
  model: {{architecture: vit, image_size: 8, patch_size: 2, num_channels: 1, hidden_size: 64, intermediate_size: 128,
          num_hidden_layers: 2, num_attention_heads: 4, num_labels: 10}}
  data: {{source: digits}}
  epochs: 20
checkpoints: {{every_steps: 200}}
mounts:
  /checkpoints: {{claim: {_scalar(starter.claim)}}}
"""


def _scalar(text: str) -> str:
    """Plain where YAML reads it back as this very text, in quotes otherwise."""
    plain = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_./:@-]*[A-Za-z0-9])?", text) and isinstance(read_scalar(text), str)
    return text if plain else json.dumps(text, ensure_ascii=False)
