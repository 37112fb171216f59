"""The run's specification for the trainer, and where each part of it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainwright.codes import found
from trainwright.findings import CompileError, Finding
from trainwright.handshake import Binding
from trainwright.locate import Locator
from trainwright.plan.model import BatchPlan, CheckpointPlan, GracePlan, LearningRatePlan, RendezvousPlan, WorldPlan
from trainwright.run import Run, ScriptWorkload, TrainerWorkload
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import HTTP_PORT
from trainwright_trainer.contract.versions import FIELD_SINCE


@dataclass(frozen=True, slots=True)
class Decided:
    """The parts of the plan that the specification repeats."""

    world: WorldPlan
    rendezvous: RendezvousPlan
    batch: BatchPlan | None
    learning_rate: LearningRatePlan | None
    checkpoint: CheckpointPlan | None
    grace: GracePlan


def build_specification(run: Run, name: str, binding: Binding, decided: Decided, engine: str, locate: Locator) -> RunSpec | None:
    """None for an opaque command, which reads no specification.

    Raises:
        CompileError: where a number that follows from the run's own is beyond what a trainer reads, such as years of grace.
    """
    work = _work(run, decided, engine)
    if work is None:
        return None
    world, rendezvous, grace = decided.world, decided.rendezvous, decided.grace
    # one validation of the whole, not one for each part
    content = {
        "run": run.run,
        "identity": name,
        "world": {
            "nodes": world.nodes,
            "processes_per_node": world.processes_per_node,
            "device": world.device,
            "node_index_env": binding.node_index_env,
            "rendezvous": {"kind": rendezvous.kind, "host": rendezvous.host, "port": rendezvous.port},
            "control_port": rendezvous.control_port,
        },
        "lifecycle": {
            "grace_seconds": grace.seconds,
            "save_seconds": grace.save_seconds,
            "peer_wait_seconds": run.peer_wait.seconds,
        },
        "http_port": HTTP_PORT,
        "work": work,
    }
    try:
        return RunSpec.model_validate(content)
    except ValidationError as error:
        raise CompileError([_out_of_range(problem, content, locate) for problem in error.errors(include_url=False)]) from error


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
    message = f"the plan comes to {pointer[1:].replace('/', '.')} = {shown}, which no trainer takes"
    return found("TW107", locate.run(cause), message, fix)


_CAUSES = {
    "/lifecycle": (
        "/workload/model",
        "use a smaller model, or a claim that writes faster: the grace period is twice the time of a save",
    ),
    "/work/learning_rate": ("/learning_rate", "change base, base_batch or warmup_steps, or the batch"),
}
"""Part of the specification that the plan derives -> the field of the run to change, and how."""


def _work(run: Run, decided: Decided, engine: str) -> dict[str, Any] | None:
    workload = run.workload
    if isinstance(workload, ScriptWorkload):
        directory = decided.checkpoint.directory if decided.checkpoint else None
        return {"kind": "script", "command": workload.command, "protocol": workload.protocol, "state_directory": directory}
    if not isinstance(workload, TrainerWorkload):
        return None
    batch, rate, checkpoint = decided.batch, decided.learning_rate, decided.checkpoint
    if batch is None or rate is None or checkpoint is None:
        raise AssertionError("the rules demand batch, learning_rate and a checkpoint claim of a trainer workload")
    return {
        "kind": "trainer",
        "engine": engine,
        "task": workload.task,
        "model": workload.model,
        "data": workload.data,
        "batch": {"micro": batch.micro, "accumulation": batch.accumulation},
        "optimizer": workload.optimizer,
        "learning_rate": {"peak": rate.peak, "schedule": workload.schedule, "warmup_samples": rate.warmup_samples},
        "clip_norm": workload.clip_norm,
        "precision": workload.precision,
        "duration": {"epochs": workload.epochs, "steps": workload.steps},
        "seed": workload.seed,
        "evaluation": workload.evaluation,
        "checkpoints": {
            "directory": checkpoint.directory,
            "every_steps": checkpoint.every_steps,
            "every_seconds": checkpoint.every_seconds,
            "keep": checkpoint.keep,
            "resume": run.checkpoints.resume,
        },
    }


SOURCES: dict[str, tuple[str, str]] = {
    "": ("trainwright", "the run's specification, the one file that the supervisor reads"),
    "/run": ("run:/run", "names the run in logs, metrics and on the checkpoint volume"),
    "/identity": ("trainwright", "run name and identity hash: marks what is complete, and which attempt wrote what"),
    "/world": ("run:/topology", "the ranks, as the plan counts them"),
    "/world/rendezvous": ("trainwright", "static rendezvous: rank 0 listens at a name known beforehand"),
    "/world/node_index_env": ("trainwright", "the target tells each pod its index through this variable"),
    "/lifecycle": ("trainwright", "budgets of the supervisor, in seconds"),
    "/lifecycle/grace_seconds": ("trainwright", "equals the pod's terminationGracePeriodSeconds"),
    "/lifecycle/peer_wait_seconds": ("run:/peer_wait", "how long pods wait for pods that are not scheduled"),
    "/http_port": ("trainwright", "probes and metrics"),
    "/work": ("run:/workload", "what the ranks do"),
    "/work/batch": ("run:/batch", "samples per rank and forward pass, and forward passes per step"),
    "/work/learning_rate": ("run:/learning_rate", "the peak rate after scaling; warm-up counted in samples"),
    "/work/learning_rate/schedule": ("run:/workload/schedule", "shape of the rate over the run"),
    "/work/duration": ("run:/workload", "when training ends"),
    "/work/checkpoints": ("run:/checkpoints", "how often to save, and what to keep"),
    "/work/checkpoints/directory": (
        "trainwright",
        "mount, run and lineage: an edit of model, optimizer or data starts a new one",
    ),
    "/work/engine": ("run:/topology/kind", "the engine that the topology names"),
    **{
        f"/work/{key}": (f"run:/workload/{key}", "as the run states it, or its default")
        for key in ("task", "model", "data", "optimizer", "clip_norm", "precision", "seed", "evaluation", "command", "protocol")
    },
}
"""Pointer into the specification -> where the value comes from and why; the nearest entry answers."""


def render_for(spec: RunSpec, version: str) -> tuple[dict[str, Any], list[str]]:
    """The specification as an image with this trainer version reads it.

    Fields that the version does not know are left out. Those that hold something else than their default are returned
    as problems, because the image would not do what the run asks.
    """
    rendered: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    problems = []
    for path, since in FIELD_SINCE.items():
        if _release(since) <= _release(version):
            continue
        *parents, last = path.split(".")
        part, model = rendered, spec
        for key in parents:
            part, model = part.get(key, {}), getattr(model, key, None)  # type: ignore[assignment]
        if last in part:
            default = type(model).model_fields[last].get_default(call_default_factory=True)
            if getattr(model, last) != default:
                problems.append(f"{path} needs trainer {since}, the image has {version}")
            del part[last]
    return rendered, problems


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
