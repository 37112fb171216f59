"""Where a rehearsal differs from a cluster: what is left out, what is scaled down, and what this machine does in another way.

A run on CPUs is rehearsed as it is. A run on GPUs keeps its shape (architecture, task, data, optimizer, precision, command) and
loses its size: what is left proves the wiring within minutes. Each difference is printed, none is silent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.rehearsal.container import INTERFACE_VARIABLES, LOOPBACK_INTERFACE
from trainwright.rehearsal.environment import command_line, container_environment, find_program, search_path
from trainwright.rehearsal.kinds import ConfigMap, Container, Job
from trainwright.rehearsal.objects import Objects, Specification, find_specification
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
    objects, unfetched = _without_waiting(objects)
    pod = objects.job.pod
    absent = [container for container in pod.containers if container is not pod.main and not _is_here(container, options)]
    if not absent:
        return objects, unfetched
    kept = [container for container in pod.containers if container not in absent]
    return _with_containers(objects, containers=kept), (*unfetched, *(
        Difference("left out", f"container {container.name}: its program is only in image {container.image.partition('@')[0]}")
        for container in absent
    ))


def _without_waiting(objects: Objects) -> tuple[Objects, tuple[Difference, ...]]:
    """A rehearsal fetches no data, so no pod may wait for it: the run reads what lies in the folder of the claim."""
    containers = objects.job.pod.init_containers
    kept = [container for container in containers if container.name != AWAIT_CONTAINER]
    if len(kept) == len(containers):
        return objects, ()
    text = "is not fetched here, and no pod waits for it: name a folder for the path with --mount PATH=FOLDER"
    return _with_containers(objects, init_containers=kept), (Difference("data", text),)


def _with_containers(objects: Objects, **changes: Sequence[Container]) -> Objects:
    """The objects with other containers in the pod template."""
    job = objects.job
    template = job.spec.template.model_copy(update={"spec": job.pod.model_copy(update=changes)})
    return replace(objects, job=job.model_copy(update={"spec": job.spec.model_copy(update={"template": template})}))


def _is_here(container: Container, options: Options) -> bool:
    return bool(container.command) and find_program(container.command[0], search_path({}, options.environment)) is not None


GPU_RUN_NODES = 2
"""Enough for a rendezvous between pods."""
STEPS = 20
SAVE_EVERY_STEPS = 5
SEQUENCE_LENGTH = 128
FILES = 100
VOCABULARY = 1024
MICRO_BATCH = 4
ACCUMULATION = 2
LAYERS = 2
HEADS = 4
HEAD_SIZE = 16
EVALUATION_BATCHES = 4

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
    pods = min(objects.job.completions, options.nodes or (GPU_RUN_NODES if on_gpus else objects.job.completions))
    differences = []
    if pods < objects.job.completions:
        differences.append(Difference("pods", f"{pods} instead of {objects.job.completions} (completions and parallelism)"))
    objects = replace(objects, job=_with_pods(objects.job, pods))
    if before is None:
        return Scaled(objects, None, tuple(differences))
    document = _document(before)
    if before.spec.world.nodes > pods:
        document["world"]["nodes"] = pods
    if on_gpus:
        document["world"].update(device="cpu", processes_per_node=1)
        if isinstance(before.spec.work, Training):
            _shrink_training(document["work"])
    _keep_here(document)
    if changes := list(_changes(_document(before), document)):
        differences.append(Difference(before.key, ", ".join(changes)))
        objects = replace(objects, config_maps=_with_document(objects.config_maps, before, document))
    return Scaled(objects, find_specification(objects.config_maps) or before, tuple(differences))


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
        _shrink_text(work["data"], work["model"])
    elif work["data"]["source"] == "tokens":
        _shrink_tokens(work["data"])
    _at_most(work["batch"], micro=MICRO_BATCH, accumulation=ACCUMULATION)
    work["duration"] = {"steps": min(STEPS, work["duration"].get("steps") or STEPS)}
    work["learning_rate"]["warmup_samples"] = 0
    work["checkpoints"] = {
        **{key: value for key, value in work["checkpoints"].items() if key != "every_seconds"}, "every_steps": SAVE_EVERY_STEPS,
    }
    work["evaluation"] = {**work.get("evaluation", {}), "max_batches": EVALUATION_BATCHES}
    work["log_every_steps"] = 1


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


def _shrink_tokens(data: Tree) -> None:
    """Shorter sequences, and any number of them: a piece of the files will do. Their vocabulary and the model's stay."""
    _at_most(data, sequence_length=SEQUENCE_LENGTH)
    data.pop("samples", None)


def _shrink_model(model: Tree) -> None:
    """Fewer and narrower layers of the same architecture; sizes that must divide each other still do."""
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


def local_differences(setting: Setting) -> Iterator[Difference]:
    """Differences that follow from the manifests and from this machine, whatever the size of the run."""
    objects, dns = setting.objects, setting.dns
    addresses = dns.address(0) + (f" to {dns.address(objects.job.completions - 1)}" if objects.job.completions > 1 else "")
    images = ", ".join(dict.fromkeys(container.image.partition("@")[0] for container in setting.pod_spec.containers))
    python, trainer = sys.version.split()[0], version("trainwright-trainer")
    yield Difference("image", f"{images} -> this machine: Python {python}, trainer {trainer}")
    yield Difference("pods", "local processes of your own user that share one machine; users, groups, "
                     "capabilities and the rest of the security context, resources and node selection are not enforced")
    yield Difference("addresses", f"{addresses}, one for each pod, in place of the Service's names; "
                     "a pod that listens on all addresses takes the port from every pod")
    yield from _variables(setting)
    yield from _paths(setting)
    yield from _only_in_the_image(setting)
    delay = f"{setting.options.replace_seconds:g} s"
    yield Difference("Job controller", f"replaces a failed pod after {delay} instead of 10 s, 20 s, ...")
    yield Difference("signals", "a program is not process 1 here: "
                     "SIGTERM ends one that has no handler, and in a container it would not")
    if any(probe.grpc for container in setting.pod_spec.containers for _, probe in container.probes):
        yield Difference("probes", "gRPC probes are not polled")
    if any(container.lifecycle for container in setting.pod_spec.containers):
        yield Difference("hooks", "what a container does after its start and before SIGTERM (lifecycle) is not played")
    if objects.job.spec.ttl_seconds_after_finished is not None:
        yield Difference("time to live", "the Job stays when it has ended, and nothing makes it again")
    if setting.pod_spec.scheduling_gates:
        yield Difference("gates", "no pod waits for its scheduling gates to be lifted")
    if setting.pod_spec.runtime_class_name:
        yield Difference("runtime", f"RuntimeClass {setting.pod_spec.runtime_class_name} is not used")
    if setting.pod_spec.resource_claims:
        yield Difference("devices", "no driver gives the pods what they claim")
    for left_out in objects.left_out:
        yield Difference("left out", left_out)


def _variables(setting: Setting) -> Iterator[Difference]:
    pod = setting.create_pod(0)
    for container in setting.pod_spec.all_containers:
        found = container_environment(container, pod, setting.objects.config_maps, setting.options.environment, container.name)
        interfaces = [name for name in INTERFACE_VARIABLES if found.values.get(name, LOOPBACK_INTERFACE) != LOOPBACK_INTERFACE]
        added = [name for name in (INTERFACE_VARIABLES[0], TERMINATION_PATH_ENV) if name not in found.values]
        replaced = ", ".join(dict.fromkeys([*interfaces, *added, "PATH"]))
        yield Difference("environment", f"{replaced}: set to what this machine needs")
        for name in found.from_caller:
            yield Difference("secrets", f"{name} has the value of your own environment")
        for name, missing in found.unexpanded.items():
            references = ", ".join(f"$({one})" for one in missing)
            yield Difference("note", f"env {name} keeps {references} as text: no variable of that name is defined before it; "
                             "a cluster does the same")


def _paths(setting: Setting) -> Iterator[Difference]:
    claims: dict[str, list[str]] = {}
    read_only: dict[str, bool] = {}
    for container in setting.pod_spec.all_containers:
        for mount, claim in setting.pod_spec.mounted_claims(container):
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


def _only_in_the_image(setting: Setting) -> Iterator[Difference]:
    """Files that a command names, and that neither a mount nor this machine has: the image must hold them."""
    pod, work = setting.create_pod(0), setting.specification.spec.work if setting.specification else None
    config_maps, caller = setting.objects.config_maps, setting.options.environment
    for container in setting.pod_spec.containers:
        values = container_environment(container, pod, config_maps, caller, container.name).values
        mounted = [mount.mount_path for mount in container.volume_mounts] + list(setting.options.mounts)
        words = (*command_line(container, values), *(work.command if isinstance(work, Script) else ()))
        for word in dict.fromkeys(words):
            path = PurePosixPath(word)
            if path.is_absolute() and not any(path.is_relative_to(mount) for mount in mounted) and not Path(word).exists():
                yield Difference("note", f"{word} is not on this machine; if the image holds it, name a folder that stands for "
                                 f"{path.parent}: --mount {path.parent}=FOLDER")
