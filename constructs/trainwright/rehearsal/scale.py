"""Scaling a run down to one machine.

A run on CPUs is rehearsed as it is. A run on GPUs keeps its shape (architecture, task, data, optimizer, precision, command) and
loses its size: what is left proves the wiring within minutes. Every change is an override that is printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainwright.rehearsal.kinds import ConfigMap, Job
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.override import Override
from trainwright.rehearsal.specification import Specification, find_specification
from trainwright_trainer.contract import Training

GPU_RUN_NODES = 2
"""Enough for a rendezvous between pods."""
STEPS = 20
SAVE_EVERY_STEPS = 5
SEQUENCE_LENGTH = 128
FILES = 100
MICRO_BATCH = 4
ACCUMULATION = 2
LAYERS = 2
HEADS = 4
HEAD_SIZE = 16
EVALUATION_BATCHES = 4

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scaled:
    objects: Objects
    specification: Specification | None
    overrides: tuple[Override, ...]


def scale_down(objects: Objects, options: Options) -> Scaled:
    """Fewer pods where asked or where it is a run on GPUs, and a specification that fits this machine."""
    before = find_specification(objects.config_maps)
    on_gpus = before is not None and before.spec.world.device == "cuda"
    pods = min(objects.job.completions, options.nodes or (GPU_RUN_NODES if on_gpus else objects.job.completions))
    overrides = []
    if pods < objects.job.completions:
        overrides.append(Override("pods", f"{pods} instead of {objects.job.completions} (completions and parallelism)"))
    objects = replace(objects, job=_with_pods(objects.job, pods))
    if before is None:
        return Scaled(objects, None, tuple(overrides))
    document = _document(before)
    if before.spec.world.nodes > pods:
        document["world"]["nodes"] = pods
    if on_gpus:
        document["world"].update(device="cpu", processes_per_node=1)
        if isinstance(before.spec.work, Training):
            _shrink_training(document["work"])
    _keep_here(document)
    if changes := list(_changes(_document(before), document)):
        overrides.append(Override(before.key, ", ".join(changes)))
        objects = replace(objects, config_maps=_with_document(objects.config_maps, before, document))
    return Scaled(objects, find_specification(objects.config_maps) or before, tuple(overrides))


def _document(specification: Specification) -> Tree:
    """As JSON, with defaults filled in."""
    return specification.spec.model_dump(mode="json", exclude_none=True)


def _with_pods(job: Job, pods: int) -> Job:
    if job.spec.completions is None:
        return job
    spec = job.spec.model_copy(update={"completions": pods, "parallelism": min(job.spec.parallelism, pods)})
    return job.model_copy(update={"spec": spec})


def _with_document(config_maps: Mapping[str, ConfigMap], before: Specification, document: Tree) -> dict[str, ConfigMap]:
    config_map = config_maps[before.config_map]
    data = {**config_map.data, before.key: json.dumps(document, indent=2, ensure_ascii=False) + "\n"}
    return {**config_maps, before.config_map: config_map.model_copy(update={"data": data})}


def _shrink_training(work: Tree) -> None:
    _shrink_model(work["model"])
    if work["data"]["source"] == "python-stdlib":
        _at_most(work["data"], sequence_length=SEQUENCE_LENGTH, files=FILES)
    _at_most(work["batch"], micro=MICRO_BATCH, accumulation=ACCUMULATION)
    work["duration"] = {"steps": min(STEPS, work["duration"].get("steps") or STEPS)}
    work["learning_rate"]["warmup_samples"] = 0
    work["checkpoints"] = {
        **{key: value for key, value in work["checkpoints"].items() if key != "every_seconds"}, "every_steps": SAVE_EVERY_STEPS,
    }
    work["evaluation"] = {**work.get("evaluation", {}), "max_batches": EVALUATION_BATCHES}
    work["log_every_steps"] = 1


def _keep_here(document: Tree) -> None:
    """Nothing is sent to a service, and no figure of a cluster's node is asked of this machine."""
    for sink in document["work"].get("metrics", ()):
        if sink["to"] == "wandb":
            sink["mode"] = "offline"
    preflight = document["lifecycle"].get("preflight", {})
    for threshold in [key for key in preflight if key.startswith(("min_", "max_"))]:
        del preflight[threshold]


def _shrink_model(model: Tree) -> None:
    """Fewer and narrower layers of the same architecture; whatever must divide still does."""
    if model["architecture"] in ("llama", "vit"):
        heads, wide = model["num_attention_heads"], model["hidden_size"]
        few = min(heads, HEADS)
        model.update(
            num_attention_heads=few,
            hidden_size=few * min(HEAD_SIZE, max(2, wide // heads // 2 * 2)),
            intermediate_size=min(model["intermediate_size"], 4 * few * HEAD_SIZE),
            num_hidden_layers=min(model["num_hidden_layers"], LAYERS),
        )
        if model.get("num_key_value_heads"):
            model["num_key_value_heads"] = next(n for n in (model["num_key_value_heads"], few) if few % n == 0 and n <= few)
    elif model["architecture"] == "resnet":
        model.update(embedding_size=min(model.get("embedding_size", 64), 16),
                     hidden_sizes=[min(width, 32) for width in model["hidden_sizes"]],
                     depths=[1] * len(model["hidden_sizes"]))
    elif "num_hidden_layers" in model.get("config", {}):
        model["config"]["num_hidden_layers"] = min(model["config"]["num_hidden_layers"], LAYERS)


def _at_most(tree: Tree, **limits: int) -> None:
    for key, limit in limits.items():
        tree[key] = min(tree.get(key, limit), limit)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """``world.nodes 4 -> 2``, for each leaf that differs."""
    for key in dict.fromkeys([*before, *after]):
        name, old, new = f"{path}{key}", before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{name}.")
        elif old != new:
            yield f"{name} {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return "unset" if value is None else json.dumps(value)
