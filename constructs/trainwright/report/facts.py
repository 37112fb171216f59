"""The facts of a plan: one list, of which the printed plan, the record, the comments in ``dist/``, differences, the page and JSON
are views.

An entry states a fact, says how a row of the plan reads, or both. What is stated is one key and one plain value, without
estimates: records hold it for reviewers to read line by line, and what changed is said by comparing two of them. So it is ASCII
on one line, in the run's own words. What a reviewer looks for first has an entry of its own; every other field that a run sets
follows under its own path, so that no edit is without a fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Flag, IntEnum, auto
from functools import cache
from typing import Any

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.manifest.template.containers import all_stated
from trainwright.model import Fact
from trainwright.plan.pods import describe_network
from trainwright.report import queue, rows, values
from trainwright.report.finding import to_json
from trainwright.report.values import EMPTY, Facts, besides, fact, flat, plain, rate, text


class Block(IntEnum):
    """Facts that stand together, in the order in which people read them."""

    RUN = auto()
    MACHINES = auto()
    TRAINING = auto()
    MODEL = auto()
    CHECKPOINTS = auto()
    PODS = auto()
    OTHERS = auto()
    OVERRIDES = auto()
    WAIVERS = auto()


class View(Flag):
    """Where a value stands, besides the row of its entry."""

    STATED = auto()
    """In the record, in the comments at the top of the run's file, and in differences."""
    JSON = auto()
    """In JSON, next to the parts of the plan."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact of a plan, a row of it, or both."""

    key: str
    """The run's own words, joined by dots. A row without a fact has a key that no fact has."""
    block: Block = Block.OTHERS
    """Where it stands, and all facts below it."""
    value: Callable[[CompiledRun], Any] | None = None
    """A plain value, or a mapping of other keys to theirs; None where a plan has nothing to state. Without it the entry speaks of
    facts that another one brings.
    """
    row: Callable[[CompiledRun], str | None] | None = None
    """As a person reads it in the printed plan and on the page; empty where a plan has no such row."""
    label: str = ""
    """What people call it, where the words of the key are not that."""
    views: View = View.STATED
    follows: tuple[str, ...] = ()
    """Of an estimate: the facts that it follows from, those below them too. A review has its row where one of them changes."""
    product: Callable[[Facts], Fact | None] | None = None
    """What a reviewer would multiply, from the facts of a record: it stands in differences alone."""
    heading: Callable[[CompiledRun], str] | None = None
    """Of a row that is called by a number."""

    @property
    def called(self) -> str:
        return self.label or words(self.key)


WHOLE = ("security", "pod_security")
"""Facts that are never cut: a reviewer decides by all that pods may do."""

_SAVING = ("by", "every", "every_steps", "keep")
"""Fields of ``checkpoints`` that have entries."""
_TRAFFIC = (
    "cluster", "workload", "topology", "nodes", "gpus_per_node", "processes_per_node", "world_size", "node_pool", "network",
    "model", "precision", "gradient_reduction", "batch.accumulation",
)
_MEMORY = (
    *_TRAFFIC, "target", "gpu", "cpu", "memory", "shared_memory", "resources", "batch.micro", "task", "data", "sequence_length",
    "optimizer", "activation_checkpointing", "compile", "initial_weights", "checkpoints.save", "booster",
)

# The list, in the order of the plan.

_LIST = (
    Entry("team", Block.RUN, lambda of: of.run.team),
    Entry("cluster", Block.RUN, lambda of: of.plan.cluster),
    Entry("namespace", Block.RUN, lambda of: of.plan.namespace),
    Entry("topology", Block.RUN, lambda of: of.plan.topology),
    Entry("target", Block.RUN, lambda of: of.plan.target, label="made as"),
    Entry("runtime", Block.RUN, values.runtime, rows.runtime),
    Entry("workload", Block.RUN, lambda of: of.plan.workload),
    Entry("machines", row=rows.machines, heading=rows.size),
    Entry("nodes", Block.MACHINES, lambda of: of.plan.world.nodes),
    Entry("gpus", Block.MACHINES, lambda of: of.resolution.gpus if of.plan.world.gpus_per_node else None, label="GPUs"),
    Entry("gpu_hours", Block.MACHINES, label="GPU-hours", product=values.gpu_hours),
    Entry("gpus_per_node", Block.MACHINES, lambda of: of.plan.world.gpus_per_node or None, label="GPUs per node"),
    Entry("gpu", Block.MACHINES, values.gpu, label="GPU"),
    Entry("processes_per_node", Block.MACHINES, values.processes),
    Entry("world_size", Block.MACHINES, lambda of: of.plan.world.size),
    Entry("node_pool", Block.MACHINES, lambda of: of.plan.world.pool),
    Entry("network", Block.MACHINES, lambda of: describe_network(of.resolution.pool.fabric)),
    Entry("topology.", value=lambda of: besides(of, "topology", "kind", "nodes", "gpus_per_node", "processes_per_node")),
    Entry("batch", Block.TRAINING, lambda of: (plan := of.plan.batch) and plan.effective,
          lambda of: (plan := of.plan.batch) and rows.batch(plan)),
    Entry("batch.micro", value=lambda of: (plan := of.plan.batch) and plan.micro),
    Entry("batch.accumulation", value=lambda of: (plan := of.plan.batch) and plan.accumulation),
    Entry("tokens_a_step", Block.TRAINING, product=lambda facts: (step := values.tokens_a_step(facts)) and f"{step:,}"),
    Entry("tokens", Block.TRAINING, product=values.tokens),
    Entry("learning_rate", Block.TRAINING, lambda of: (plan := of.plan.learning_rate) and rate(plan.peak),
          lambda of: (plan := of.plan.learning_rate) and rows.learning_rate(plan)),
    Entry("learning_rate.base", value=lambda of: (plan := of.plan.learning_rate) and rate(plan.base)),
    Entry("learning_rate.", value=lambda of: of.plan.learning_rate and besides(of, "learning_rate", "base")),
    Entry("elastic", row=lambda of: (plan := of.plan.elastic) and rows.elastic(plan)),
    Entry("duration", row=lambda of: (plan := of.plan.duration) and rows.duration(plan)),
    Entry("epochs", Block.TRAINING, lambda of: (plan := of.plan.duration) and plan.epochs),
    Entry("steps", Block.TRAINING, lambda of: (plan := of.plan.duration) and plan.steps),
    Entry("workload.", value=values.workload),
    *(Entry(key, Block.TRAINING) for key in ("task", "precision", "schedule", "optimizer")),
    *(Entry(key, Block.MODEL) for key in ("model", "initial_weights", "data")),
    Entry("image", Block.MODEL, lambda of: of.run.image),
    Entry("trainer_version", Block.MODEL, values.trainer_version, label="trainer"),
    Entry("checkpoints", Block.CHECKPOINTS, lambda of: (plan := of.plan.checkpoint) and plan.saves_to),
    Entry("checkpoints.by", value=lambda of: None if of.plan.saved_by == "trainer" else of.plan.saved_by, label="saved by"),
    Entry("checkpoints.lineage", value=values.lineage, label="checkpoint lineage"),
    Entry("checkpoints.claim", value=lambda of: (plan := of.plan.checkpoint) and plan.claim, label="checkpoint claim"),
    Entry("checkpoints.every", value=values.every, label="checkpoint every"),
    Entry("checkpoints.keep", value=lambda of: (plan := of.plan.checkpoint) and plan.keep, label="checkpoints kept"),
    Entry("checkpoints.", value=lambda of: of.plan.checkpoint and besides(of, "checkpoints", *_SAVING)),
    Entry("not_finite", row=rows.not_finite),
    Entry("rank_memory", row=rows.memory, label="memory", follows=_MEMORY),
    Entry("host_memory", row=rows.host_memory, follows=_MEMORY),
    Entry("traffic", row=lambda of: (plan := of.plan.communication) and rows.traffic(plan), follows=_TRAFFIC),
    Entry("scaling", row=rows.scaling),
    Entry("pod", row=rows.pod),
    Entry("supervisor", value=values.supervisor, row=rows.supervisor, label="image"),
    Entry("devices", row=lambda of: rows.devices(of.run.resources.devices)),
    Entry("roles", row=lambda of: rows.roles(of.run.roles)),
    Entry("further_roles", row=rows.further_roles),
    Entry("autoscaling", row=lambda of: rows.autoscaling(of.resolution.needs.autoscaled)),
    Entry("containers", row=lambda of: ", ".join(rows.container(*stated) for stated in all_stated(of.resolution))),
    Entry("packages", row=rows.packages),
    Entry("fetched", row=lambda of: rows.fetched(of.plan.data), label="data"),
    Entry("initializers", row=lambda of: rows.initializers(of.run)),
    Entry("rendezvous", row=rows.rendezvous),
    Entry("control", row=rows.control),
    Entry("queue", Block.PODS, lambda of: of.run.queue),
    Entry("asks", Block.PODS, queue.asks, queue.row, label="quota"),
    Entry("pod_group", row=lambda of: (plan := of.plan.gang) and rows.gang(plan), label="gang"),
    Entry("gang", Block.PODS, lambda of: (plan := of.plan.gang) and plan.scheduler, label="started as one by"),
    Entry("gang.minimum", value=lambda of: (plan := of.plan.gang) and plan.minimum, label="pods that start as one"),
    Entry("placement", row=lambda of: (plan := of.plan.placement) and rows.placement(plan)),
    Entry("cpu", Block.PODS, lambda of: values.limit(of, "cpu"), label="CPUs per pod"),
    Entry("memory", Block.PODS, lambda of: values.limit(of, "memory"), label="memory per pod"),
    Entry("shared_memory", Block.PODS, lambda of: str(of.plan.resources.shm), label="shared memory per pod"),
    Entry("resources.", value=lambda of: besides(of, "resources", "cpu", "memory", "shared_memory")),
    Entry("containers of the pool", value=values.of_the_pool),
    Entry("grace_seconds", Block.PODS, lambda of: of.plan.grace.seconds, label="grace period in seconds"),
    Entry("restarts", Block.PODS, lambda of: None if of.resolution.binding.runtime else of.run.restarts, rows.restarts),
    Entry("lost_pods", row=rows.lost_pods),
    Entry("waits", row=rows.waits, label="when it waits"),
    Entry("end", row=lambda of: "" if of.resolution.supervised else of.resolution.binding.recovery.first_ends),
    Entry("saving", row=rows.checkpoints, label="checkpoints"),
    Entry("starts_from", row=lambda of: (start := of.run.resume_from) and f"{start}, which it only reads"),
    Entry("metrics", row=rows.metrics),
    Entry("watchdog", row=lambda of: rows.changed(of.run.watchdog)),
    Entry("preflight", row=lambda of: rows.changed(of.run.preflight)),
    Entry("guarantees", row=lambda of: rows.guarantees(of)),
    Entry("security", Block.PODS, values.security, rows.security),
    Entry("pod_security", Block.PODS, lambda of: of.security or "restricted", lambda of: of.security),
    Entry("others", value=values.others),
    Entry("waivers", Block.WAIVERS, values.waivers),
    Entry("overrides", Block.OVERRIDES, row=lambda of: rows.overrides(of.overridden)),
    Entry("findings", value=lambda of: to_json(of.findings), row=lambda of: rows.findings(of.findings), views=View.JSON),
)
ENTRIES = {entry.key: entry for entry in _LIST}
"""By their keys, in the order of the plan."""


# Views.


def plan_facts(compiled: CompiledRun) -> dict[str, Fact]:
    """What a plan states: key -> value, in the order of the list."""
    facts: dict[str, Any] = {}
    for key, value in plan_values(compiled, View.STATED):
        facts |= value if isinstance(value, Mapping) else {key: value}
    return {text(key): plain(value) if key in WHOLE else fact(value) for key, value in facts.items() if value not in EMPTY}


def plan_values(compiled: CompiledRun, view: View) -> Iterator[tuple[str, Any]]:
    """Key and value of each entry that has one in this view."""
    for entry in ENTRIES.values():
        if entry.value and view in entry.views and (value := entry.value(compiled)) is not None:
            yield entry.key, value


def with_products(facts: Facts) -> dict[str, Fact]:
    """With what a reviewer would multiply."""
    products = ((entry.key, entry.product(facts)) for entry in ENTRIES.values() if entry.product)
    return {**facts, **{key: value for key, value in products if value is not None}}


def told(facts: Facts) -> dict[str, Fact]:
    """Facts without those that say another one's words again: the base of a rate that nothing scales."""
    doubled = facts.get("learning_rate") == facts.get("learning_rate.base")
    return {key: value for key, value in facts.items() if not (doubled and key == "learning_rate.base")}


@cache
def block(key: str) -> Block:
    """Where a fact stands, by its key."""
    entry = ENTRIES.get(key.partition(".")[0])
    return entry.block if entry else Block.OTHERS


@cache
def label(key: str) -> str:
    """What people call a fact."""
    return ENTRIES[key].called if key in ENTRIES else words(key)


_PLAIN = re.compile(r"[a-z0-9_.]+")
"""Keys of ours; others end in a label, a path or a variable, which stays as it is written."""


def words(key: str) -> str:
    """``learning_rate.warmup_steps`` -> ``learning rate warmup steps``."""
    return key.translate(str.maketrans("._", "  ")) if _PLAIN.fullmatch(key) else key.replace(".", " ", 1)


def shown(value: Fact) -> str:
    """A fact's value as people write it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def finding_facts(compiled: CompiledRun) -> dict[str, str]:
    """Code -> ``warning``, ``note`` or ``waived``: of several findings of one code, the gravest.

    It does not depend on the day: a waiver that has expired is an error.
    """
    grades = ("note", "waived", "warning")
    said: dict[str, str] = {}
    for one in compiled.findings:
        word = "waived" if one.waived else one.severity.value
        said[one.code] = max(word, said.get(one.code, word), key=grades.index)
    return dict(sorted(said.items()))


def profile_facts(cluster: Cluster) -> dict[str, Fact]:
    """Path such as ``node_pools/h100/cpus`` -> what the profile says there. A profile names Secrets, and never holds one."""
    return _said(cluster.model_dump(mode="json", exclude_unset=True))


def default_facts(defaults: Mapping[str, Any]) -> dict[str, Fact]:
    """Path such as ``env/HF_HOME`` -> what a run has there from the defaults of its project."""
    return _said(defaults)


def _said(data: Mapping[str, Any]) -> dict[str, Fact]:
    return {text(path): fact(value) for path, value in flat(data, separator="/")}
