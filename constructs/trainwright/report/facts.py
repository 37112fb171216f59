"""What a plan states, and what a profile says, as flat facts: one key and one plain value each, without estimates.

They stand in the records, where a reviewer reads them line by line, and what changed is said by comparing them. So a fact is
ASCII on one line, in the run's own words. What a reviewer looks for first is named here;
every other field that a run sets follows under its own path, so that no edit is without a fact.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.manifest.template.containers import all_stated
from trainwright.model import Fact
from trainwright.plan import Plan
from trainwright.plan.model import SecurityPlan
from trainwright.plan.pods import describe_network
from trainwright.plan.security import describe_security
from trainwright.run import CommandWorkload, Run

LONGEST = 160
"""Characters of a value that are written out; a longer one ends in a digest."""

WHOLE = ("security", "pod_security")
"""Facts that are never cut: a reviewer decides by all that pods may do."""

EMPTY: tuple[Any, ...] = ({}, [])

PLANNED = frozenset((
    "run", "team", "namespace", "cluster", "image", "trainer_version", "topology", "workload", "batch", "learning_rate",
    "checkpoints", "target", "node_pool", "queue", "resources", "state", "restarts", "waivers",
))
"""Fields of a run that the plan's facts tell of."""


def plan_facts(compiled: CompiledRun) -> dict[str, Fact]:
    """Key -> value, in the order in which a reviewer reads them. Keys are the run's own words, joined by dots."""
    run, plan = compiled.run, compiled.plan
    stated: dict[str, Any] = run.model_dump(mode="json", exclude_unset=True)
    facts: dict[str, Any] = {"team": run.team, "cluster": plan.cluster, "namespace": plan.namespace}
    facts |= {"topology": plan.topology, "target": plan.target, "workload": plan.workload}
    facts |= _world(compiled, stated) | _training(plan, stated) | _workload(run, stated)
    facts |= _software(run) | _checkpoints(plan, stated) | _scheduling(compiled, stated)
    facts |= dict(_flat({name: value for name, value in stated.items() if name not in PLANNED}))
    facts |= {f"waivers.{waiver.code}": f"until {waiver.expires}: {waiver.reason}" for waiver in run.waivers}
    return {_text(key): _plain(value) if key in WHOLE else _fact(value) for key, value in facts.items() if value not in EMPTY}


def finding_facts(compiled: CompiledRun) -> dict[str, str]:
    """Code -> ``warning``, ``note`` or ``waived``: of several findings of one code, the gravest.

    It does not depend on the day: a waiver that has expired is an error.
    """
    words = ("note", "waived", "warning")
    said: dict[str, str] = {}
    for one in compiled.findings:
        word = "waived" if one.waived else one.severity.value
        said[one.code] = max(word, said.get(one.code, word), key=words.index)
    return dict(sorted(said.items()))


def profile_facts(cluster: Cluster) -> dict[str, Fact]:
    """Path such as ``node_pools/h100/cpus`` -> what the profile says there. A profile names Secrets, and never holds one."""
    return _said(cluster.model_dump(mode="json", exclude_unset=True))


def default_facts(values: Mapping[str, Any]) -> dict[str, Fact]:
    """Path such as ``env/HF_HOME`` -> what a run has there from the defaults of its project."""
    return _said(values)


def _said(data: Mapping[str, Any]) -> dict[str, Fact]:
    return {_text(path): _fact(value) for path, value in _flat(data, separator="/")}


def rate(value: float) -> str:
    """A learning rate as people write it: ``3.0e-4``, to six digits."""
    mantissa, _, exponent = f"{Decimal(f'{value:.6g}').normalize():e}".partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}e{int(exponent)}"


def _world(compiled: CompiledRun, stated: dict[str, Any]) -> dict[str, Any]:
    """Nodes, ranks and machines."""
    world, pool = compiled.plan.world, compiled.resolution.pool
    facts: dict[str, Any] = {"nodes": world.nodes}
    if world.gpus_per_node and pool.gpu:
        facts |= {"gpus": compiled.resolution.gpus, "gpus_per_node": world.gpus_per_node}
        facts["gpu"] = f"{pool.gpu.model} {pool.gpu.memory}"
    if world.processes_per_node != world.gpus_per_node:
        facts["processes_per_node"] = world.processes_per_node
    facts |= {"world_size": world.size, "node_pool": world.pool, "network": describe_network(pool.fabric)}
    return facts | _rest(stated, "topology", "kind", "nodes", "gpus_per_node", "processes_per_node")


def _training(plan: Plan, stated: dict[str, Any]) -> dict[str, Any]:
    """Batch, learning rate and duration."""
    facts: dict[str, Any] = {}
    if plan.batch:
        batch = plan.batch
        facts |= {"batch": batch.effective, "batch.micro": batch.micro, "batch.accumulation": batch.accumulation}
    if plan.learning_rate:
        facts |= {"learning_rate": rate(plan.learning_rate.peak), "learning_rate.base": rate(plan.learning_rate.base)}
        facts |= _rest(stated, "learning_rate", "base")
    if plan.duration:
        facts |= {} if plan.duration.epochs is None else {"epochs": plan.duration.epochs}
        facts |= {} if plan.duration.steps is None else {"steps": plan.duration.steps}
    return facts


def _workload(run: Run, stated: dict[str, Any]) -> dict[str, Any]:
    """What is trained and how, without what the plan has decided from it."""
    workload = {key: value for key, value in stated["workload"].items() if key not in ("kind", "epochs", "steps")}
    if run.trainer:
        first = {"task": run.trainer.task, "precision": run.trainer.precision, "schedule": run.trainer.schedule}
        optimizer = {"kind": run.trainer.optimizer.kind, **workload.get("optimizer", {})}
        model, data = {"architecture": run.trainer.model.architecture}, {"source": run.trainer.data.source}
        chosen: dict[str, dict[str, Any]] = {"model": model, "data": data}
        stated_parts = {key: {**one, **workload.get(key, {})} for key, one in chosen.items()}
        workload = first | workload | stated_parts | {"optimizer": optimizer}
    workload |= workload.pop("training", {})  # of a script: the same words
    workload |= {key: shlex.join(workload[key]) for key in ("command", "args") if workload.get(key)}
    return dict(_flat(workload))


def _software(run: Run) -> dict[str, Any]:
    trainer = {} if isinstance(run.workload, CommandWorkload) else {"trainer_version": run.trainer_version}
    return {"image": run.image, **trainer}


def _checkpoints(plan: Plan, stated: dict[str, Any]) -> dict[str, Any]:
    """Who saves, unless that follows from the workload; where they go and what they belong to; the size is an estimate."""
    checkpoint, by = plan.checkpoint, {} if plan.saved_by == "trainer" else {"checkpoints.by": plan.saved_by}
    if checkpoint is None:
        return by
    facts: dict[str, Any] = {"checkpoints": checkpoint.saves_to, **by}
    facts |= {"checkpoints.lineage": checkpoint.lineage} if checkpoint.saves_to == checkpoint.directory else {}
    facts |= {"checkpoints.claim": checkpoint.claim} if checkpoint.claim else {}
    if checkpoint.every:
        facts |= {"checkpoints.every": checkpoint.every.removeprefix("every "), "checkpoints.keep": checkpoint.keep}
    return facts | _rest(stated, "checkpoints", "by", "every", "every_steps", "keep")


def _scheduling(compiled: CompiledRun, stated: dict[str, Any]) -> dict[str, Any]:
    """What one pod gets and may do, and who lets it start."""
    run, plan = compiled.run, compiled.plan
    facts: dict[str, Any] = {"queue": run.queue} if run.queue else {}
    if plan.gang:
        facts |= {"gang": plan.gang.scheduler, "gang.minimum": plan.gang.minimum}
    resources = plan.resources
    limits = {amount.name: amount.limit for amount in compiled.resolution.amounts(compiled.resolution.binding.ranks)}
    facts |= {name: limits.get(name) or "none" for name in ("cpu", "memory")} | {"shared_memory": str(resources.shm)}
    facts |= _rest(stated, "resources", "cpu", "memory", "shared_memory")
    brought = [one.container for one in all_stated(compiled.resolution) if one.source.startswith("cluster:")]
    facts |= {f"containers of the pool.{one.name}": f"{one.kind}, {one.image}" for one in brought}
    return facts | {
        "grace_seconds": plan.grace.seconds,
        "restarts": run.restarts,
        **({"security": describe_security(plan.security)} if _from_profile(plan.security) else {}),
        "pod_security": compiled.security or "restricted",
    }


def _from_profile(security: SecurityPlan) -> bool:
    """Whether the run's own words do not say all of it."""
    return any(source.startswith("cluster:") for source in security.sources.values())


def _rest(stated: dict[str, Any], field: str, *known: str) -> dict[str, Any]:
    """What a run sets in one of its fields, besides what the plan tells of it."""
    return dict(_flat({key: value for key, value in stated.get(field, {}).items() if key not in known}, f"{field}."))


def _flat(value: Mapping[str, Any], prefix: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Leaves by their path. A list of plain values is one leaf, and so is what is empty."""
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{path}{separator}", separator)
        elif isinstance(item, Sequence) and not isinstance(item, str) and item:
            if any(isinstance(one, Mapping | list) for one in item):
                yield from _flat({str(number): one for number, one in enumerate(item)}, f"{path}{separator}", separator)
            else:
                yield path, ", ".join(map(str, item))
        else:
            yield path, item


def _fact(value: Any) -> Fact:
    if value is None or value in EMPTY:
        return "none" if value is None else str(value)
    if isinstance(value, str):
        return _text(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(text: str) -> str:
    """As :func:`_plain`, and no longer than a reviewer reads."""
    shown = _plain(text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}... (sha256 {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]})"


def _plain(text: str) -> str:
    """In ASCII, on one line."""
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
