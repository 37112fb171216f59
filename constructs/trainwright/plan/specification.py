"""The files that a run brings into its pods: the specification for the trainer, what its engine reads, and the user's own.

Where each part of the specification comes from is here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, to_json

from trainwright.findings import CompileError, Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.handshake import Binding, Needs, Rendezvous
from trainwright.model import Model, changed_fields
from trainwright.plan.checkpoint import directory_source
from trainwright.plan.deepspeed import SOURCES as DEEPSPEED_SOURCES
from trainwright.plan.model import (
    BatchPlan,
    CheckpointPlan,
    ControlPlan,
    ElasticPlan,
    GracePlan,
    LearningRatePlan,
    RecoveryPlan,
    RendezvousPlan,
    WorldPlan,
)
from trainwright.plan.packages import REQUIREMENTS, SOURCE, packages_of
from trainwright.rendezvous.mpi import HOSTFILE, Mpirun
from trainwright.run import BoostingWorkload, CommandWorkload, Run, ScriptWorkload, TrainerWorkload
from trainwright.units import Duration
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.boosting import BoostingSettings
from trainwright_trainer.contract.layout import DEEPSPEED_FILE, SPEC_DIRECTORY, SPEC_FILE
from trainwright_trainer.contract.training import CheckpointSettings, RateShape, TrainingSettings
from trainwright_trainer.contract.training import Duration as Length


class PlannedParts(NamedTuple):
    """The parts of the plan that the specification repeats."""

    world: WorldPlan
    rendezvous: RendezvousPlan
    batch: BatchPlan | None
    learning_rate: LearningRatePlan | None
    elastic: ElasticPlan | None
    checkpoint: CheckpointPlan | None
    grace: GracePlan
    control: ControlPlan | None
    recovery: RecoveryPlan | None


def build_specification(
    run: Run, name: str, needs: Needs, binding: Binding, planned: PlannedParts, locate: Locator
) -> RunSpec | None:
    """The specification; None for an opaque command without a supervisor, which reads none.

    Raises:
        CompileError: where a number that follows from the run's own is beyond what a trainer reads, such as years of grace.
    """
    work = _work(run, planned)
    if work is None:
        return None
    world, rendezvous, grace, control = planned.world, planned.rendezvous, planned.grace, planned.control
    # one validation of the whole, not one for each part
    content = {
        "run": run.run,
        "identity": name,
        "world": {
            "nodes": world.nodes,
            "processes_per_node": world.processes_per_node,
            "replicas_per_process": needs.replicas_per_process if needs.replicas_per_process > 1 else None,
            "device": world.device,
            "node_index_env": binding.node_index_env,
            "rendezvous": _rendezvous(run, needs, binding, rendezvous),
            "control_port": rendezvous.control_port,
            "control_secret": control.path if control else None,
        },
        "lifecycle": {
            "grace_seconds": grace.seconds,
            "save_seconds": grace.save_seconds,
            "peer_wait_seconds": run.peer_wait.seconds,
            "peer_lost_seconds": run.peer_lost.seconds,
            "watchdog": _in_seconds(run.watchdog),
            "preflight": _in_seconds(run.preflight),
            "recovery": _recovery(run, planned.recovery),
        },
        "http_port": rendezvous.http_port,
        "work": work,
    }
    try:
        return RunSpec.model_validate(content)
    except ValidationError as error:
        raise CompileError([_out_of_range(problem, content, locate) for problem in error.errors(include_url=False)]) from error


def _in_seconds(settings: Model) -> dict[str, Any] | None:
    """What a run states that is not the default, by the contract's names; None if that is nothing, so that no identity moves."""
    stated = {
        f"{name}_seconds" if isinstance(value, Duration) else name: value.seconds if isinstance(value, Duration) else value
        for name, value in changed_fields(settings).items()
    }
    return stated or None


def _recovery(run: Run, planned: RecoveryPlan | None) -> dict[str, Any] | None:
    return {"restarts": run.restarts, "wait_seconds": planned.wait.seconds} if planned and planned.in_place else None


def taken(part: BaseModel, shared: type[Contract]) -> dict[str, Any]:
    """The fields that a part of the run shares with one of the contract, as they are."""
    return {name: getattr(part, name) for name in shared.model_fields}


def _rendezvous(run: Run, needs: Needs, binding: Binding, rendezvous: RendezvousPlan) -> dict[str, Any]:
    """How the ranks find each other, in the contract's words."""
    address = {"host": rendezvous.host, "port": rendezvous.port}
    if needs.rendezvous in (Rendezvous.STATIC, Rendezvous.DMLC_TRACKER):
        return {"kind": rendezvous.kind, **address}
    if needs.rendezvous is Rendezvous.JAX_COORDINATOR:  # its address is the same in every pod, and supervisors meet there
        return {"kind": "static", **address}
    if needs.rendezvous is Rendezvous.C10D and needs.elastic:
        sizes = {"min_nodes": needs.elastic.minimum, "max_nodes": needs.elastic.maximum}
        fields = ("last_call_seconds", "keep_alive_seconds", "keep_alive_attempts")
        times = {name: getattr(needs.elastic, name) for name in fields}
        return {"kind": "c10d", **address, **sizes, **times, "max_restarts": run.restarts}
    if mpirun := binding.part(Mpirun):
        return {"kind": "mpi-hostfile", "role_env": mpirun.role_env, "hostfile": HOSTFILE, **address}
    return {"kind": rendezvous.kind}


def _out_of_range(problem: ErrorDetails, content: dict[str, Any], locate: Locator) -> Finding:
    """What the run asks for follows its own schema, so only numbers that the plan derived can be refused here."""
    pointer, node = "", content
    for key in map(str, problem["loc"]):
        if isinstance(node, dict) and key in node:  # the tag of a union is in the location and not in the content
            pointer, node = f"{pointer}/{key}", node[key]
    cause, fix = next(
        (entry for part, entry in _CAUSES.items() if pointer.startswith(part)), ("", "change the fields that it follows from")
    )
    number = problem["input"]
    shown = f"{number:.6g}" if isinstance(number, int | float) else str(number)
    message = f"the plan computes {pointer[1:].replace('/', '.')} = {shown}, which no trainer accepts"
    return found("TW107", locate.run(cause), message, fix)


_CAUSES = {
    "/lifecycle": (
        "/workload/model",
        "use a smaller model, or a claim that writes faster: the grace period is twice the time of a save",
    ),
    "/work/learning_rate": ("/learning_rate", "change base, base_batch or warmup_steps, or the batch"),
}
"""Part of the specification that the plan derives -> the field of the run to change, and how."""


def _work(run: Run, planned: PlannedParts) -> dict[str, Any] | None:
    workload = run.workload
    directory = planned.checkpoint.directory if planned.checkpoint else None
    if isinstance(workload, CommandWorkload) and run.supervised:
        return {"kind": "command", "state_directory": directory}
    if isinstance(workload, ScriptWorkload):
        keeps = run.saved_by == "script"
        return {
            "kind": "script",
            "command": workload.command,
            "protocol": workload.protocol,
            "state_directory": directory,
            "checkpoints": {"keep": run.checkpoints.keep, "resume": run.checkpoints.resume} if keeps else None,
            "config": workload.config,
        }
    if isinstance(workload, TrainerWorkload):
        return _training(run, workload, planned)
    if isinstance(workload, BoostingWorkload):
        return {"kind": "xgboost", **taken(workload, BoostingSettings), "checkpoints": _checkpoints(run, planned)}
    return None


def _training(run: Run, workload: TrainerWorkload, planned: PlannedParts) -> dict[str, Any]:
    batch, rate, elastic = planned.batch, planned.learning_rate, planned.elastic
    if batch is None or rate is None:
        raise AssertionError("the rules demand batch and learning_rate of a trainer workload")
    content = {
        "kind": "trainer",
        "engine": run.topology.engine,
        **run.topology.settings(),
        **taken(workload, TrainingSettings),
        "batch": {"micro": batch.micro, "accumulation": batch.accumulation},
        "learning_rate": {"peak": rate.peak, "warmup_samples": rate.warmup_samples, **taken(workload, RateShape)},
        "duration": taken(workload, Length),
        "checkpoints": _checkpoints(run, planned),
    }
    if elastic is not None:
        content["batch"] |= {"keep": "effective" if elastic.keeps_batch else "micro", "effective": batch.effective}
    if elastic is not None and not elastic.keeps_batch and run.learning_rate:
        content["learning_rate"] |= {"scaling": run.learning_rate.scaling}
    return content


def _checkpoints(run: Run, planned: PlannedParts) -> dict[str, Any]:
    checkpoint = planned.checkpoint
    if checkpoint is None:
        raise AssertionError("the rules demand a checkpoint claim of our trainer's work")
    return {
        "directory": checkpoint.directory,
        "every_seconds": checkpoint.every_seconds,
        **taken(run.checkpoints, CheckpointSettings),
    }


WORK = "/work"
"""Pointer to what the ranks do."""

DIRECTORY = f"{WORK}/checkpoints/directory"
"""Pointer to where our trainer's checkpoints go."""

STATED, DEFAULT = "as the run states it", "the default: the run states none"

SOURCES: dict[str, tuple[str, str]] = {
    "": ("trainwright", "the run's specification, the one file that the supervisor reads"),
    "/run": ("run:/run", "names the run in logs, metrics and on the checkpoint volume"),
    "/identity": ("trainwright", "run name and identity hash: marks what is complete, and which attempt wrote what"),
    "/world": ("run:/topology", "the ranks, as the plan counts them"),
    "/world/rendezvous": ("trainwright", "how ranks find each other on this target"),
    "/world/replicas_per_process": ("run:/topology/gpus_per_node", "one replica of the model on each GPU of the process"),
    "/world/node_index_env": ("trainwright", "the target tells each pod its index through this variable"),
    "/world/control_secret": ("cluster:/namespaces", "where the Secret is mounted by which the pods know each other"),
    "/lifecycle": ("trainwright", "budgets of the supervisor, in seconds"),
    "/lifecycle/grace_seconds": ("trainwright", "equals the pod's terminationGracePeriodSeconds"),
    "/lifecycle/peer_wait_seconds": ("run:/peer_wait", "how long pods wait for pods that are not scheduled"),
    "/lifecycle/peer_lost_seconds": ("run:/peer_lost", "how long a pod may be silent"),
    "/lifecycle/watchdog": ("run:/watchdog", "how long a rank may make no progress in each phase"),
    "/lifecycle/preflight": ("run:/preflight", "what nodes must show before training begins"),
    "/http_port": ("trainwright", "probes and metrics"),
    "/work": ("run:/workload", "what the ranks do"),
    "/work/batch": ("run:/batch", "samples per rank and forward pass, and forward passes per step"),
    "/work/learning_rate": ("run:/learning_rate", "the peak rate after scaling; warm-up counted in samples"),
    "/work/learning_rate/schedule": ("run:/workload/schedule", "shape of the rate over the run"),
    "/work/learning_rate/decay_fraction": ("run:/workload/decay_fraction", "when the rate starts to fall"),
    "/work/duration": ("run:/workload", "when training ends"),
    "/work/checkpoints": ("run:/checkpoints", "how often to save, and what to keep"),
    "/work/state_directory": ("trainwright", "this run's own checkpoint directory"),
    DIRECTORY: (
        "trainwright",
        "mount or object store, run and lineage: an edit of model, optimizer or data starts a new one",
    ),
    "/work/checkpoints/save": ("run:/checkpoints/save", "whether training goes on while a checkpoint is written"),
    "/work/engine": ("run:/topology/kind", "the engine that the topology names"),
    "/work/deepspeed": ("run:/topology", "where DeepSpeed's own configuration is"),
    "/work/fsdp2": ("run:/topology/fsdp2", "settings of fully_shard"),
    f"{WORK}/ddp": ("run:/topology/ddp", "settings of DistributedDataParallel"),
    "/work/batch/keep": ("run:/topology/elastic/batch", "what stays when nodes come and go"),
    **{
        f"/work/{key}": (f"run:/workload/{key}", STATED)
        for key in (*TrainingSettings.model_fields, *BoostingSettings.model_fields, "command", "protocol", "config")
    },
}
"""Pointer into the specification -> where the value comes from and why; the nearest entry answers."""


_HOSTS = "hostfile"
"""Key of mpirun's host file."""


class Payload(NamedTuple):
    """One file: a key of the run's ConfigMap, and where pods find it."""

    key: str
    path: str
    text: str
    source: str
    reason: str
    answers: Mapping[str, tuple[str, str]] = {}
    """Pointer into a JSON file -> source and reason of what is there; the nearest entry answers."""
    folder: str | None = None
    """Where it is mounted together with others, and hides what the image has there; None for a file that is mounted alone."""


def plan_payloads(
    run: Run, spec: RunSpec | None, deepspeed: Mapping[str, object] | None, hosts: tuple[str, str] | None
) -> tuple[Payload, ...]:
    """The run's files, in the order of the ConfigMap. ``hosts`` is the path of mpirun's host file and what it says, where the run
    brings it.
    """
    payloads = []
    if spec is not None:
        rendered = spec.model_dump(mode="json", exclude_none=True)
        reason = "the run's specification, the one file that the supervisor reads"
        answers = SOURCES | dict(_defaults(run.workload)) | _directory_sources(run)
        path = f"{SPEC_DIRECTORY}/{SPEC_FILE}"
        payloads.append(Payload(SPEC_FILE, path, _json(rendered), "trainwright", reason, answers, SPEC_DIRECTORY))
    if deepspeed is not None:
        reason = "DeepSpeed's configuration, made from the plan"
        path = f"{SPEC_DIRECTORY}/{DEEPSPEED_FILE}"
        payloads.append(Payload(DEEPSPEED_FILE, path, _json(deepspeed), "trainwright", reason, DEEPSPEED_SOURCES, SPEC_DIRECTORY))
    if hosts is not None:
        reason = "the hosts of the ranks and their slots, for mpirun"
        payloads.append(Payload(_HOSTS, hosts[0], hosts[1], "run:/topology", reason))
    if packages := packages_of(run):
        path, text = f"{SPEC_DIRECTORY}/{REQUIREMENTS}", "".join(f"{package}\n" for package in packages)
        reason = "what pip installs before the program starts"
        payloads.append(Payload(REQUIREMENTS, path, text, SOURCE, reason, folder=SPEC_DIRECTORY))
    return (*payloads, *_files_of(run))


def _files_of(run: Run) -> Iterator[Payload]:
    """The run's own files, each under a key of its own: in a folder its name, unless that is one of ours or taken."""
    keys = {SPEC_FILE, DEEPSPEED_FILE, REQUIREMENTS, _HOSTS}
    for number, (path, content) in enumerate(run.files.items()):
        text = content if isinstance(content, str) else _json(content)
        source = f"run:/files/{escape(path)}"
        of_file = {} if isinstance(content, str) else {"": (source, "as asked")}
        folder = next((one for one in run.file_folders if PurePosixPath(path).is_relative_to(one)), None)
        name = PurePosixPath(path).name
        plain = folder is not None and name not in keys and _KEY.fullmatch(name) is not None
        keys.add(key := name if plain else f"file-{number}-{_file_key(path)}")
        yield Payload(key, path, text, source, "as asked", of_file, folder)


def _defaults(model: BaseModel, path: str = "") -> Iterator[tuple[str, tuple[str, str]]]:
    """What a run passes to the trainer without stating it: settings of the workload, and those in them."""
    for name in type(model).model_fields:
        value, below = getattr(model, name), f"{path}/{name}"
        if not path and SOURCES.get(f"/work{below}", ("", ""))[1] != STATED:
            continue
        if name not in model.model_fields_set and name != "kind":
            yield f"/work{below}", (f"run:/workload{below}", DEFAULT)
        for part, inner in enumerate(value) if isinstance(value, list | tuple) else (("", value),):
            if isinstance(inner, BaseModel):
                yield from _defaults(inner, f"{below}/{part}" if part != "" else below)


def _directory_sources(run: Run) -> dict[str, tuple[str, str]]:
    """Where the run itself says something of its checkpoint directory."""
    source, reason = directory_source(run)
    if source == "trainwright":
        return {}
    return {"/work/state_directory": (source, reason), DIRECTORY: (source, SOURCES[DIRECTORY][1])}


_KEY = re.compile(r"(?!file-\d)[a-zA-Z0-9][-._a-zA-Z0-9]{0,199}")
"""A name that is a key as it is, and none that is made here."""


def _file_key(path: str) -> str:
    """The name of a file, with underscores for what a key of a ConfigMap cannot hold."""
    return re.sub(r"[^-._a-zA-Z0-9]", "_", PurePosixPath(path).name)[-200:]


def _json(value: object) -> str:
    return to_json(value, indent=2).decode() + "\n"
