"""The project that ``compile.py`` measures: six cluster profiles and any number of runs, as files on a disk.

Runs differ in what runs of one company differ in: cluster, namespace, team, size, model, schedule, mounts, secrets, overrides.
The same number always gives the same files. All use the Indexed Job, whose objects cdk8s-plus has typed classes for.
"""

from __future__ import annotations

from pathlib import Path

IMAGE = "registry.example.com/trainer@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8"

CLUSTERS = {
    "h100-ib": """\
cluster: h100-ib
kubernetes: "1.34"
default_target: indexed-job
node_pools:
  h100:
    cpus: 192
    memory: 2000Gi
    gpu: {model: H100, memory: 80Gi, per_node: 8}
    fabric: {kind: infiniband, links: 8, gigabits_per_link: 400, interface: eth0, hca: "=mlx5_0,mlx5_1,mlx5_2,mlx5_3",
             resource: rdma/rdma_shared_device_a}
    labels: {node.kubernetes.io/instance-type: h100x8}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
""",
    "h200-roce": """\
cluster: h200-roce
kubernetes: "1.35"
default_target: indexed-job
node_pools:
  h200:
    cpus: 224
    memory: 2000Gi
    gpu: {model: H200, memory: 141Gi, per_node: 8}
    fabric: {kind: roce, links: 8, gigabits_per_link: 400, interface: bond0, hca: "mlx5_bond", resource: rdma/hca}
    labels: {example.com/rack: a}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}, {key: dedicated, value: training, effect: NoSchedule}]
""",
    "a100-efa": """\
cluster: a100-efa
kubernetes: "1.33"
default_target: indexed-job
node_pools:
  p4de:
    cpus: 96
    memory: 1100Gi
    gpu: {model: A100, memory: 80Gi, per_node: 8}
    fabric: {kind: efa, links: 4, gigabits_per_link: 100, interface: eth0, resource: vpc.amazonaws.com/efa, resource_count: 4}
    labels: {node.kubernetes.io/instance-type: p4de.24xlarge}
""",
    "a100-spot": """\
cluster: a100-spot
kubernetes: "1.34"
default_target: indexed-job
node_pools:
  a100:
    cpus: 96
    memory: 1300Gi
    gpu: {model: A100, memory: 80Gi, per_node: 8}
    fabric: {kind: tcp, links: 1, gigabits_per_link: 100, interface: ens5}
    taints: [{key: cloud.example.com/spot, value: "true", effect: NoSchedule}]
    spot: {notice: 2m}
""",
    "l40s": """\
cluster: l40s
kubernetes: "1.34"
default_target: indexed-job
node_pools:
  l40s:
    cpus: 128
    memory: 1000Gi
    gpu: {model: L40S, memory: 48Gi, per_node: 8}
    fabric: {kind: tcp, links: 2, gigabits_per_link: 100, interface: eth0}
    labels: {accelerator: l40s}
""",
    "v100": """\
cluster: v100
kubernetes: "1.33"
default_target: indexed-job
node_pools:
  v100:
    cpus: 64
    memory: 700Gi
    gpu: {model: V100, memory: 32Gi, per_node: 8}
    fabric: {kind: tcp, links: 1, gigabits_per_link: 25, interface: eno1}
    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
""",
}
"""Profile name -> its node pools; every one gets the namespaces below."""

NAMESPACES = """\
storage_classes:
  nfs-csi: {access: [ReadWriteOnce, ReadOnlyMany, ReadWriteMany]}
registries: [registry.example.com]
namespaces:
  training:
    security: {user: 1000}
    claims:
      training-checkpoints: {storage_class: nfs-csi, size: 20Ti, write_mebibytes_per_second: 4000}
      training-dataset: {managed: false, access: ReadOnlyMany}
  research:
    claims:
      training-checkpoints: {storage_class: nfs-csi, size: 5Ti, write_mebibytes_per_second: 2000}
      training-dataset: {managed: false, access: ReadOnlyMany}
"""

MODELS = {
    "llama-small": """\
  task: causal-lm
  model: {architecture: llama, vocab_size: 32000, hidden_size: 768, intermediate_size: 2048, num_hidden_layers: 12,
          num_attention_heads: 12, num_key_value_heads: 4, max_position_embeddings: 2048}
  data: {source: python-stdlib, tokenizer: bpe, vocabulary: 32000, sequence_length: 1024}
""",
    "llama-1b": """\
  task: causal-lm
  model: {architecture: llama, vocab_size: 32000, hidden_size: 2048, intermediate_size: 5632, num_hidden_layers: 22,
          num_attention_heads: 32, num_key_value_heads: 4, max_position_embeddings: 2048}
  data: {source: python-stdlib, tokenizer: bpe, vocabulary: 32000, sequence_length: 512}
""",
    "vit": """\
  task: image-classification
  model: {architecture: vit, image_size: 8, patch_size: 2, num_channels: 1, hidden_size: 384, intermediate_size: 1536,
          num_hidden_layers: 12, num_attention_heads: 6, num_labels: 10}
  data: {source: digits, held_out: 0.01}
  precision: fp32
""",
    "resnet": """\
  task: image-classification
  model: {architecture: resnet, num_channels: 1, hidden_sizes: [64, 128, 256], depths: [2, 2, 2], layer_type: basic,
          image_size: 8, num_labels: 10}
  data: {source: digits, held_out: 0.01}
  optimizer: {kind: sgd}
  precision: fp32
""",
}

TEAMS = ("nlp", "vision", "speech", "platform", "recommendations")

MOUNTS = """\
mounts:
  /checkpoints: {claim: training-checkpoints}
"""


def write_project(folder: Path, runs: int) -> None:
    """Write the profiles and ``runs`` runs below ``folder/charts``."""
    for name in ("clusters", "runs"):
        (folder / "charts" / name).mkdir(parents=True)
    for name, profile in CLUSTERS.items():
        (folder / "charts" / "clusters" / f"{name}.yaml").write_text(profile + NAMESPACES, encoding="utf-8")
    for number in range(runs):
        name, text = run_file(number)
        (folder / "charts" / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")


def run_file(number: int) -> tuple[str, str]:
    """Name and text of one run: of ten, seven run our trainer, two a script and one an opaque command."""
    sort = number % 10
    if sort < 7:
        model = list(MODELS)[number % len(MODELS)]
        name, work = f"{model}-{number:05}", _trainer(number, model)
    elif sort < 9:
        name, work = f"script-{number:05}", _script(number)
    else:
        name, work = f"command-{number:05}", _command(number)
    return name, _head(number, name) + work + _extras(number)


def _head(number: int, name: str) -> str:
    return f"""\
# Run {number} of the benchmark.
run: {name}
team: {TEAMS[number % len(TEAMS)]}
namespace: {("training", "training", "research")[number % 3]}
cluster: {list(CLUSTERS)[number // 2 % len(CLUSTERS)]}
image: {IMAGE}
topology: {{kind: ddp, nodes: {(1, 2, 2, 4)[number // 3 % 4]}, gpus_per_node: 8}}
"""


def _trainer(number: int, model: str) -> str:
    spans = ("epochs: 30", "epochs: 90", "steps: 20000") if model in ("vit", "resnet") else ("steps: 1000", "steps: 50000")
    return f"""\
batch: {{micro: {(1, 2)[number % 2]}, accumulation: {(1, 2)[number // 4 % 2]}}}
learning_rate: {{base: {(3, 2, 1)[number % 3]}e-4, base_batch: 256, scaling: square_root, warmup_steps: {100 * (1 + number % 5)}}}
workload:
  kind: trainer
{MODELS[model]}  {spans[number % len(spans)]}
  seed: {number}
checkpoints: {{every: {15 + number % 4 * 5}m}}
{MOUNTS}"""


def _script(number: int) -> str:
    return f"""\
workload: {{kind: script, command: [python, /app/train.py, --data, /data/set-{number % 7}, --epochs, "{10 + number % 80}"]}}
security: {{user: 1000}}
{MOUNTS}  /data: {{claim: training-dataset, read_only: true}}
env:
  WANDB_API_KEY: {{secret: weights-and-biases, key: api-key}}
  WANDB_RUN_GROUP: sweep-{number // 50}
"""


def _command(number: int) -> str:
    return f"""\
workload: {{kind: command, command: [torchrun, /app/train.py, --seed, "{number}"]}}
security: {{user: 1000}}
{MOUNTS}  /cache: {{scratch: 200Gi}}
"""


def _extras(number: int) -> str:
    """What one run in a few has."""
    labels = f'labels: {{example.com/cost-center: "{4000 + number % 40}"}}\n' if number % 4 == 0 else ""
    secrets = "image_pull_secrets: [registry]\n" if number % 5 == 0 else ""
    overrides = "overrides: {pod: {node: {priorityClassName: research-high}}}\n" if number % 11 == 0 else ""
    return labels + secrets + overrides
