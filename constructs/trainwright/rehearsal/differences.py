"""Where a rehearsal differs from a cluster: what is left out, what is scaled down, and what this machine does in another way.

A run on CPUs is rehearsed as it is. A run on GPUs keeps its shape (architecture, task, data, optimizer, precision, command) and
loses its size: what is left proves the wiring within minutes. Each difference is printed, none is silent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.operators import operator
from trainwright.operators.operator import Size
from trainwright.rehearsal.container import INTERFACE_VARIABLES, LOOPBACK_INTERFACE
from trainwright.rehearsal.environment import container_environment, find_program
from trainwright.rehearsal.kinds import ConfigMap, Container
from trainwright.rehearsal.objects import Objects, Specification, find_objects, find_specification, with_containers
from trainwright.rehearsal.setting import Options, Setting
from trainwright.rehearsal.volumes import SHARED_MEMORY
from trainwright_trainer.contract import Script, Training
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which this rehearsal is not what the cluster would do."""

    subject: str
    """One or two words: ``addresses``, ``image``."""
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


def leave_out_containers(objects: Objects, options: Options) -> tuple[Objects, tuple[Difference, ...]]:
    """The objects without the containers that cannot be played, and that the run can do without.

    These are containers beside the one that trains whose program is only in their image, such as a log collector, and the one
    that waits for data to be fetched.
    """
    kept, differences = {}, dict[Difference, None]()
    for slot in objects.slots:
        spec = slot.spec
        waiting = [one for one in spec.init_containers if one.name == AWAIT_CONTAINER]
        absent = [
            one for one in (*(one for one in spec.init_containers if one.is_sidecar), *spec.containers)
            if one is not spec.main and not _is_here(one, options)
        ]
        if waiting:
            text = "is not fetched here, and no pod waits for it: name a folder for the path with --mount PATH=FOLDER"
            differences[Difference("data", text)] = None
        for one in absent:
            image = one.image.partition("@")[0]
            differences[Difference("left out", f"container {one.name}: its program is only in image {image}")] = None
        kept[slot.number] = spec.model_copy(update={
            "init_containers": [one for one in spec.init_containers if one not in waiting and one not in absent],
            "containers": [one for one in spec.containers if one not in absent],
        }) if waiting or absent else spec  # fmt: skip
    return with_containers(objects, kept), tuple(differences)


def _is_here(container: Container, options: Options) -> bool:
    return bool(container.command) and find_program(container.command[0], options.search_path({})) is not None


GPU_RUN_NODES = 2
"""Enough for a rendezvous between pods."""
STEPS = 20
SEQUENCE_LENGTH = 128
FILES = 100
VOCABULARY = 1024
MICRO_BATCH = 4
ACCUMULATION = 2
LAYERS = 2
HEADS = 4
HEAD_SIZE = 16
EVALUATION_BATCHES = 4
RANKS_OPTIONS = ("-np", "--np", "-n")
"""Of mpirun, mpiexec and horovodrun."""

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scaled:
    """What is played, and how it differs from what was asked."""

    objects: Objects
    specification: Specification | None
    differences: tuple[Difference, ...]


def scale_down(objects: Objects, options: Options) -> Scaled:
    """Fewer pods where asked, or where the run is on GPUs, and a specification that fits this machine."""
    before = find_specification(objects.config_maps)
    on_gpus = before is not None and before.spec.world.device == "cuda"
    most = options.nodes or (GPU_RUN_NODES if on_gpus else None)
    steps = options.steps or (STEPS if on_gpus else None)
    workload, config_maps = dict(objects.workload), dict(objects.config_maps)
    if most or on_gpus:
        size = Size(most or len(objects.slots), 1 if on_gpus else None)
        workload = operator.resized(workload, objects.around, size)
    differences, specification = [], before
    if before is not None:
        document = _document(before)
        if most:
            _at_most_nodes(document["world"], most)
        if on_gpus:
            document["world"].update(device="cpu", processes_per_node=1)
            document["world"].pop("replicas_per_process", None)
        if steps and not isinstance(before.spec.work, Script):
            _shorten(document["work"], steps)
        if on_gpus and isinstance(before.spec.work, Training):
            _shrink_training(document["work"])
        _keep_here(document)
        ranks = document["world"]["nodes"] * document["world"]["processes_per_node"]
        batch = document["work"].get("batch", {})
        if "effective" in batch:
            batch["effective"] = batch["micro"] * batch["accumulation"] * ranks
        if ranks != before.spec.world.size:
            workload = _with_ranks(workload, ranks)
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
    return Scaled(smaller, specification, tuple(differences))


def _with_data(manifest: Mapping[str, Any], config_maps: Mapping[str, ConfigMap]) -> Mapping[str, Any]:
    if GroupKind.of(manifest) != ConfigMap.key:
        return manifest
    changed = config_maps.get(manifest["metadata"]["name"])
    return {**manifest, "data": dict(changed.data)} if changed else manifest


def _document(specification: Specification) -> Tree:
    """As JSON, with defaults filled in."""
    return specification.spec.model_dump(mode="json", exclude_none=True)


def _at_most_nodes(world: Tree, most: int) -> None:
    _at_most(world, nodes=most)
    for bound in {"min_nodes", "max_nodes"} & world["rendezvous"].keys():
        _at_most(world["rendezvous"], **{bound: most})


def _with_ranks(workload: Tree, ranks: int) -> Tree:
    """The object with another number of ranks where a launcher's command states one, wherever that is."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: _counted(part, ranks) if key in ("command", "args") and isinstance(part, list) else walk(part)
                for key, part in value.items()
            }
        return [walk(part) for part in value] if isinstance(value, list) else value

    changed: Tree = walk(workload)
    return changed


def _counted(words: Sequence[str], ranks: int) -> list[str]:
    """``-np 16`` of mpirun, wherever it stands behind the supervisor's words."""
    return [str(ranks) if before in RANKS_OPTIONS else word for before, word in zip(["", *words], words, strict=False)]


def _file(text: str, document: Tree) -> str:
    """Another file of the run: DeepSpeed's settings say the batch once more, and gloo knows no streams that could overlap."""
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
    if work["data"]["source"] == "python-stdlib":
        _shrink_text(work["data"], work["model"])
    elif work["data"]["source"] == "tokens":
        _at_most(work["data"], sequence_length=SEQUENCE_LENGTH)
    work["data"].pop("samples", None)  # a piece of the files will do
    _at_most(work["batch"], micro=MICRO_BATCH, accumulation=ACCUMULATION)
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


def local_differences(setting: Setting) -> Iterator[Difference]:
    """Differences that follow from the manifests and from this machine, whatever the size of the run."""
    objects, dns = setting.objects, setting.dns
    first, *_, last = (*objects.slots, *objects.slots)
    addresses = dns.address(first) + (f" to {dns.address(last)}" if last is not first else "")
    specs, containers = [slot.spec for slot in objects.first_of_roles], objects.containers
    images = ", ".join(dict.fromkeys(container.image.partition("@")[0] for container in containers))
    yield Difference("image", f"{images} -> this machine, with the programs of {setting.options.programs}")
    yield Difference("pods", "local processes of your own user that share one machine; users, groups, "
                     "capabilities and the rest of the security context, resources and node selection are not enforced")
    yield Difference("addresses", f"{addresses}, one for each pod, in place of the names of Services")
    if setting.network.replaced:
        yield Difference("ports", f"{setting.network.replaced}: a program may listen on all addresses of this machine")
    yield from _variables(setting)
    yield from _paths(setting)
    pace = setting.options.pace
    yield Difference("controllers", f"wait {pace:g} of what they wait in the cluster: {10 * pace:g} s in place of 10 s")
    yield Difference("signals", "a program is not process 1 here: "
                     "SIGTERM ends one that has no handler, and in a container it would not")
    if any(probe.grpc for container in containers for _, probe in container.probes):
        yield Difference("probes", "gRPC probes are not polled")
    if any(container.lifecycle for container in containers):
        yield Difference("hooks", "what a container does after its start and before SIGTERM (lifecycle) is not played")
    if any(spec.scheduling_gates for spec in specs):
        yield Difference("gates", "no pod waits for its scheduling gates to be lifted")
    for name in dict.fromkeys(spec.runtime_class_name for spec in specs if spec.runtime_class_name):
        yield Difference("runtime", f"RuntimeClass {name} is not used")
    if any(spec.resource_claims for spec in specs):
        yield Difference("devices", "no driver gives the pods what they claim")
    if any(spec.host_network for spec in specs):
        yield Difference("host network", "each pod has an address of its own, as if each were on a node of its own")
    for left_out in objects.left_out:
        yield Difference("left out", left_out)


def _variables(setting: Setting) -> Iterator[Difference]:
    seen: dict[Difference, None] = {}
    for slot in setting.objects.first_of_roles:
        pod = setting.create_pod(slot)
        for container in slot.spec.all_containers:
            found = container_environment(container, pod, setting.objects, setting.options.environment, container.name)
            values = found.values
            interfaces = [name for name in INTERFACE_VARIABLES if values.get(name, LOOPBACK_INTERFACE) != LOOPBACK_INTERFACE]
            added = [name for name in (INTERFACE_VARIABLES[0], TERMINATION_PATH_ENV) if name not in values]
            replaced = ", ".join(dict.fromkeys([*interfaces, *added, "PATH"]))
            seen[Difference("environment", f"{replaced}: set to what this machine needs")] = None
            for name in found.from_caller:
                seen[Difference("secrets", f"{name} has the value of your own environment")] = None
            for name in found.stand_ins:
                text = "is left out" if name.startswith("every") else "has a stand-in: export it for another value"
                seen[Difference("secrets", f"{name} {text}")] = None
            for name, missing in found.unexpanded.items():
                references = ", ".join(f"$({one})" for one in missing)
                seen[Difference("note", f"env {name} keeps {references} as text: no variable of that name is defined before it; "
                                "a cluster does the same")] = None
    yield from seen


def _paths(setting: Setting) -> Iterator[Difference]:
    claims: dict[str, list[str]] = {}
    read_only: dict[str, bool] = {}
    for mount, claim in setting.mounted_claims:
        if mount.mount_path not in setting.options.mounts:
            claims.setdefault(claim.claim_name, []).append(mount.mount_path)
            read_only[claim.claim_name] = read_only.get(claim.claim_name, True) and (mount.read_only or claim.read_only)
    for name, paths in claims.items():
        folder = setting.workspace.claims / name
        empty = " (empty: put the data there)" if read_only[name] and not (folder.is_dir() and any(folder.iterdir())) else ""
        guarded = "; read-only is not enforced" if read_only[name] else ""
        yield Difference("claim " + name, f"{', '.join(dict.fromkeys(paths))} -> {folder}{empty}{guarded}")
    for address, folder in setting.store_folders.items():
        yield Difference("object store", f"{address} -> {folder}: the real one is neither read nor written")
    for path, local in setting.options.mounts.items():
        yield Difference("folder", f"{path} -> {local}, as you asked")
    yield Difference("paths", f"other mounts and /tmp -> {setting.workspace.pods}/<pod>; {SHARED_MEMORY} is this machine's; "
                     "paths are rewritten in command, environment and mounted files")
