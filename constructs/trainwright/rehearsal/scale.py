"""A run on GPUs keeps its shape (architecture, task, data, optimizer, precision, command) and loses its size.

What is left proves the wiring within minutes. A run on CPUs is rehearsed as it is. Each change is stated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.operators import operator
from trainwright.operators.operator import Size
from trainwright.rehearsal.commands import resize_commands
from trainwright.rehearsal.differences import Difference
from trainwright.rehearsal.setting import Options
from trainwright.rehearsal.stated.kinds import ConfigMap, Container, EnvVar, PodSpec
from trainwright.rehearsal.stated.objects import Objects, Specification, find_objects, find_specification
from trainwright.rendezvous.mpi import fewer_hosts
from trainwright_trainer.contract import Script, Training

GPU_RUN_NODES = 2
"""Enough for a rendezvous between pods."""
STEPS = 20
SEQUENCE_LENGTH = 128
SHORTEST_SEQUENCE = 8
LOGITS = 2_000_000
"""Of a micro batch over token files: the vocabulary is theirs and stays, and a CPU without bfloat16 makes 3 million a second."""
FILES = 100
VOCABULARY = 1024
MICRO_BATCH = 4
ACCUMULATION = 2
LAYERS = 2
HEADS = 4
HEAD_SIZE = 16
EVALUATION_BATCHES = 4
HANG_SECONDS = 30
"""Of a step, before a rank counts as hung where one is made to hang."""

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scaled:
    """What is played, and how it differs from what was asked."""

    objects: Objects
    specification: Specification | None
    differences: tuple[Difference, ...]
    size: str
    """How many pods, and what follows for ranks and batch: ``2 of 4 pods, world size 32 -> 2, batch 1024 -> 16``."""


def scale_down(objects: Objects, options: Options) -> Scaled:
    """Fewer pods where asked, or where the run is on GPUs, and a specification that fits this machine."""
    before = find_specification(objects.config_maps)
    on_gpus = before.spec.world.device == "cuda" if before else any(map(_asks_for_gpus, objects.containers))
    most, config_maps = options.nodes or (GPU_RUN_NODES if on_gpus else None), dict(objects.config_maps)
    workload = dict(objects.workload)
    size = Size(most or len(objects.slots), 1 if on_gpus else None) if most or on_gpus else None
    if size:
        workload = operator.resized(workload, objects.around, size)
        config_maps = {name: _fewer_hosts(one, size) for name, one in config_maps.items()}
    differences, specification = [], before
    if before is not None:
        document = _smaller(before, most, options, on_gpus)
        if changes := list(_changes(_document(before), document)):
            differences.append(Difference(before.key, ", ".join(changes)))
            config_map = config_maps[before.config_map]
            texts = {key: _file(text, document) for key, text in config_map.data.items()}
            data = texts | {before.key: json.dumps(document, indent=2, ensure_ascii=False) + "\n"}
            config_maps[before.config_map] = config_map.model_copy(update={"data": data})
        specification = find_specification(config_maps) or before
    others = [_with_data(one, config_maps) for one in objects.around.objects]
    smaller = replace(find_objects([workload], others), left_out=objects.left_out)
    if len(smaller.slots) < len(objects.slots):
        differences.insert(0, Difference("pods", f"{len(smaller.slots)} instead of {len(objects.slots)}"))
    told = _told(on_gpus, most, len(smaller.slots))
    if told:
        here = {slot.made.host for slot in smaller.slots}
        hosts = {slot.made.host: slot.made.host in here for slot in objects.slots}
        slots = tuple(replace(slot, spec=_with_variables(slot.spec, told, hosts)) for slot in smaller.slots)
        stated = {variable.name: variable.value for container in smaller.containers for variable in container.env}
        changed = {name: value for name, value in told.items() if name in stated}
        changed |= {name: played for name, value in stated.items() if (played := _played(value, hosts)) != value}
        text = ", ".join(f"{name} -> {value}" for name, value in changed.items())
        differences += [Difference("variables", text)] if changed else []
        smaller = replace(smaller, slots=slots)
    if size:
        smaller, lowered = resize_commands(smaller, objects, size, specification.spec.world.size if specification else None)
        differences += [Difference("command", one) for one in lowered]
    sizes = [_pods(len(smaller.slots), len(objects.slots)), *(_sizes(before, specification) if before and specification else ())]
    return Scaled(smaller, specification, tuple(differences), ", ".join(sizes))


def _pods(here: int, stated: int) -> str:
    of = f"{here} of " if here < stated else ""
    return f"{of}{stated} pods" if stated > 1 else "1 pod"


def _sizes(before: Specification, here: Specification) -> Iterator[str]:
    """What a person asks first of fewer pods. A learning rate stays as it is stated."""
    numbers = [("world size", before.spec.world.size, here.spec.world.size)]
    if isinstance(old := before.spec.work, Training) and isinstance(new := here.spec.work, Training):
        numbers.append(("batch", old.batch.samples(before.spec.world.replicas), new.batch.samples(here.spec.world.replicas)))
    yield from (f"{name} {stated} -> {now}" for name, stated, now in numbers if stated != now)


def _smaller(before: Specification, most: int | None, options: Options, on_gpus: bool) -> Tree:
    """The specification for this machine."""
    document = _document(before)
    world, work = document["world"], document["work"]
    if most:
        _at_most(world, nodes=most)
        for bound in {"min_nodes", "max_nodes"} & world["rendezvous"].keys():
            _at_most(world["rendezvous"], **{bound: most})
    if on_gpus:
        world.update(device="cpu", processes_per_node=1)
        world.pop("replicas_per_process", None)
    steps = options.steps or (STEPS if on_gpus else None)
    if steps and not isinstance(before.spec.work, Script):
        _shorten(work, steps)
    if on_gpus and isinstance(before.spec.work, Training):
        _shrink_training(work)
    if "effective" in work.get("batch", {}):
        ranks = world["nodes"] * world["processes_per_node"]
        work["batch"]["effective"] = work["batch"]["micro"] * work["batch"]["accumulation"] * ranks
    _keep_here(document)
    if any(kind == "hang" for kind, _ in options.faults):
        limits = document["lifecycle"].setdefault("watchdog", {})
        _at_most(limits, training_seconds=HANG_SECONDS)
    return document


def _asks_for_gpus(container: Container) -> bool:
    return any("gpu" in name for amounts in container.resources.values() if isinstance(amounts, Mapping) for name in amounts)


def _told(on_gpus: bool, most: int | None, pods: int) -> dict[str, str]:
    """Variables by which launchers know sizes, and numerical libraries how many threads they may start."""
    threads = max(1, (os.cpu_count() or 1) // pods)
    return {
        **(dict.fromkeys(("PET_NNODES", "NNODES", "JAX_NUM_PROCESSES"), str(most)) if most else {}),
        **(dict.fromkeys(("PET_NPROC_PER_NODE", "NPROC_PER_NODE"), "1") if on_gpus else {}),
        **({"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"} if on_gpus else {}),
    }  # fmt: skip


def _with_variables(spec: PodSpec, told: Mapping[str, str], hosts: Mapping[str, bool]) -> PodSpec:
    """Numbers that are stated, and none that is larger, and hosts that are here; what keeps a library off a GPU is added."""

    def of(container: Container) -> Container:
        def value(variable: EnvVar) -> str:
            here, stated = told.get(variable.name), variable.value
            return here if here and stated.isdecimal() and int(stated) > int(here) else _played(stated, hosts)

        kept = [variable.model_copy(update={"value": value(variable)}) for variable in container.env]
        added = [EnvVar(name=name, value=told[name]) for name in ("CUDA_VISIBLE_DEVICES", "DS_ACCELERATOR") if name in told]
        return container.model_copy(update={"env": [*added, *kept]})

    return spec.model_copy(update={
        "init_containers": [*map(of, spec.init_containers)], "containers": [*map(of, spec.containers)],
    })  # fmt: skip


def _played(value: str, hosts: Mapping[str, bool]) -> str:
    """A variable that lists hosts of pods, with or without ports, without those that are not played; others stay.

    ``hosts`` says of each whether it is.
    """
    names = [(name, hosts.get(name.partition(":")[0])) for name in value.split(",")]
    kept = [name for name, here in names if here]
    return ",".join(kept) if kept and all(here is not None for _, here in names) else value


def _fewer_hosts(config_map: ConfigMap, size: Size) -> ConfigMap:
    data = {key: fewer_hosts(text, size.nodes, size.processes) or text for key, text in config_map.data.items()}
    return config_map.model_copy(update={"data": data})


def _with_data(manifest: Mapping[str, Any], config_maps: Mapping[str, ConfigMap]) -> Mapping[str, Any]:
    if GroupKind.of(manifest) != ConfigMap.key:
        return manifest
    changed = config_maps.get(manifest["metadata"]["name"])
    return {**manifest, "data": dict(changed.data)} if changed else manifest


def _document(specification: Specification) -> Tree:
    """As JSON, with defaults filled in."""
    return specification.spec.model_dump(mode="json", exclude_none=True)


def _file(text: str, document: Tree) -> str:
    """DeepSpeed's settings, which say the batch again. gloo knows no streams. Other files stay."""
    try:
        settings = json.loads(text)
        batch = document["work"]["batch"]
    except (ValueError, KeyError):
        return text
    if not isinstance(settings, dict) or "train_micro_batch_size_per_gpu" not in settings:
        return text
    ranks = document["world"]["nodes"] * document["world"]["processes_per_node"]
    settings |= {
        "train_batch_size": batch["micro"] * batch["accumulation"] * ranks, "train_micro_batch_size_per_gpu": batch["micro"],
        "gradient_accumulation_steps": batch["accumulation"],
    }
    if isinstance(settings.get("zero_optimization"), dict):
        settings["zero_optimization"]["overlap_comm"] = False
    return json.dumps(settings, indent=2)


def _shorten(work: Tree, steps: int) -> None:
    """So many steps, and a checkpoint at the end of each quarter of them."""
    if "rounds" in work:
        _at_most(work, rounds=steps)
        work.pop("early_stopping_rounds", None)
    else:
        work["duration"] = {"steps": min(steps, work["duration"].get("steps") or steps)}
        work["learning_rate"]["warmup_samples"] = 0
    work["checkpoints"] = {
        **{key: value for key, value in work["checkpoints"].items() if key != "every_seconds"},
        "every_steps": max(1, steps // 4),
    }
    work["log_every_steps"] = 1


def _shrink_training(work: Tree) -> None:
    _shrink_model(work["model"])
    _at_most(work["batch"], micro=MICRO_BATCH, accumulation=ACCUMULATION)
    if work["data"]["source"] == "python-stdlib":
        _shrink_text(work["data"], work["model"])
    elif work["data"]["source"] == "tokens":
        fitting = LOGITS // (work["batch"]["micro"] * work["data"]["vocabulary"])
        _at_most(work["data"], sequence_length=max(SHORTEST_SEQUENCE, min(SEQUENCE_LENGTH, fitting)))
    work["data"].pop("samples", None)  # a piece of the files will do
    work["evaluation"] = {**work.get("evaluation", {}), "max_batches": EVALUATION_BATCHES}


def _keep_here(document: Tree) -> None:
    """Nothing is sent to a service, and this machine is not held to the thresholds of a cluster's node."""
    for sink in document["work"].get("metrics", ()):
        if sink["to"] == "wandb":
            sink["mode"] = "offline"
    preflight = document["lifecycle"].get("preflight", {})
    for threshold in [key for key in preflight if key.startswith(("min_", "max_"))]:
        del preflight[threshold]


def _shrink_text(data: Tree, model: Tree) -> None:
    """Shorter sequences of fewer files and fewer tokens: learning a tokenizer and computing logits take time by their number."""
    _at_most(data, sequence_length=SEQUENCE_LENGTH, files=FILES)
    spared = max(0, data["vocabulary"] - VOCABULARY)
    if "vocab_size" in model:  # what it has beyond the data's tokens, such as a mask, it keeps
        data["vocabulary"] -= spared
        model["vocab_size"] -= spared


def _shrink_model(model: Tree) -> None:
    """Fewer and narrower layers of the same architecture; sizes that must divide each other still do."""
    if model["architecture"] in ("llama", "vit", "bert"):
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
