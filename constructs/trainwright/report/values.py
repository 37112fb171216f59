"""How the facts of a plan get their values from a run that compiled, and how a value becomes a fact."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from trainwright.compile import CompiledRun
from trainwright.manifest.template.containers import all_stated
from trainwright.model import Fact
from trainwright.operators import TARGETS
from trainwright.plan.security import describe_security
from trainwright.units import Duration, UnitError

Facts = Mapping[str, Fact]

LONGEST = 160
"""Characters of a value that are written out; a longer one ends in a digest."""

EMPTY: tuple[Any, ...] = ({}, [])

TOLD = frozenset((
    "run", "team", "namespace", "cluster", "image", "trainer_version", "supervisor", "topology", "workload", "batch",
    "learning_rate", "checkpoints", "target", "node_pool", "queue", "resources", "state", "restarts", "runtime", "waivers",
))
"""Fields of a run that the list speaks of."""


def rate(value: float) -> str:
    """A learning rate as people write it: ``3.0e-4``, to six digits."""
    mantissa, _, exponent = f"{Decimal(f'{value:.6g}').normalize():e}".partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}e{int(exponent)}"


def gpu(compiled: CompiledRun) -> str | None:
    """Of the ranks."""
    own = compiled.resolution.pool.gpu if compiled.plan.world.gpus_per_node else None
    return f"{own.model} {own.memory}" if own else None


def processes(compiled: CompiledRun) -> int | None:
    world = compiled.plan.world
    return world.processes_per_node if world.processes_per_node != world.gpus_per_node else None


def workload(compiled: CompiledRun) -> dict[str, Any]:
    """What is trained and how, without what the plan has decided from it."""
    trainer = compiled.run.trainer
    workload = {key: value for key, value in _written(compiled, "workload").items() if key not in ("kind", "epochs", "steps")}
    if trainer:
        kinds = {"model": {"architecture": trainer.model.architecture}, "data": {"source": trainer.data.source}}
        kinds["optimizer"] = {"kind": trainer.optimizer.kind}
        first = {"task": trainer.task, "precision": trainer.precision, "schedule": trainer.schedule}
        workload = first | workload | {key: kind | workload.get(key, {}) for key, kind in kinds.items()}
    workload |= workload.pop("training", {})  # of a script: the same words
    workload |= {key: shlex.join(workload[key]) for key in ("command", "args") if workload.get(key)}
    return dict(flat(workload))


def supervisor(compiled: CompiledRun) -> str | None:
    brought = compiled.plan.supervisor
    return f"brought from {brought.image}" if brought else compiled.run.supervisor


def runtime(compiled: CompiledRun) -> str | None:
    """One that is installed, by its content."""
    name = compiled.resolution.binding.runtime
    return f"{name}@{compiled.cluster.runtimes[name].digest}" if name else None


def trainer_version(compiled: CompiledRun) -> str | None:
    return compiled.run.trainer_version if compiled.run.supervised else None


def lineage(compiled: CompiledRun) -> str | None:
    """Where they go by it: a program that saves by itself may name another directory."""
    own = compiled.plan.checkpoint
    return own.lineage if own and own.saves_to == own.directory else None


def every(compiled: CompiledRun) -> str | None:
    own = compiled.plan.checkpoint
    return own.every.removeprefix("every ") if own and own.every else None


def limit(compiled: CompiledRun, name: str) -> str:
    """Of a pod that holds ranks."""
    amounts = compiled.resolution.amounts[compiled.resolution.binding.ranks.name]
    return next((amount.limit for amount in amounts if amount.name == name and amount.limit), "none")


def of_the_pool(compiled: CompiledRun) -> dict[str, str]:
    """Containers that the profile brings; those of the run are in its own words."""
    brought = [stated.container for stated in all_stated(compiled.resolution) if stated.source.startswith("cluster:")]
    return {f"containers of the pool.{container.name}": f"{container.kind}, {container.image}" for container in brought}


def security(compiled: CompiledRun) -> str | None:
    """What the run's own words do not say all of."""
    own = compiled.plan.security
    return describe_security(own) if any(source.startswith("cluster:") for source in own.sources.values()) else None


def waivers(compiled: CompiledRun) -> dict[str, str]:
    return {f"waivers.{waiver.code}": f"until {waiver.expires}: {waiver.reason}" for waiver in compiled.run.waivers}


def others(compiled: CompiledRun) -> dict[str, Any]:
    return dict(flat(compiled.run.model_dump(mode="json", exclude_unset=True, exclude=set(TOLD))))


def besides(compiled: CompiledRun, field: str, *told: str) -> dict[str, Any]:
    """What a run sets in one of its fields, besides what entries of the list tell of it."""
    return dict(flat({key: value for key, value in _written(compiled, field).items() if key not in told}, f"{field}."))


def _written(compiled: CompiledRun, field: str) -> dict[str, Any]:
    part = getattr(compiled.run, field)
    return part.model_dump(mode="json", exclude_unset=True) if part else {}


def _number(facts: Facts, key: str) -> int | None:
    value = facts.get(key)
    return value if isinstance(value, int) else None


def tokens_a_step(facts: Facts) -> int | None:
    """With padding, of our trainer or of a script."""
    batch, length = _number(facts, "batch"), _number(facts, "data.sequence_length") or _number(facts, "sequence_length")
    return batch * length if batch and length else None


def tokens(facts: Facts) -> str | None:
    step, steps = tokens_a_step(facts), _number(facts, "steps")
    return f"{step * steps:,}" if step and steps else None


def gpu_hours(facts: Facts) -> str | None:
    """Until the deadline: that of the run, or of each attempt."""
    gpus, target = _number(facts, "gpus"), str(facts.get("target"))
    if not gpus or "deadline" not in facts:
        return None
    each = " an attempt" if target in TARGETS and TARGETS[target].renews_deadline else ""
    with suppress(UnitError):  # of a record that somebody edited
        return f"at most {gpus * Duration.parse(facts['deadline']).seconds / 3600:,.0f}{each}"
    return None


def flat(value: Mapping[str, Any], prefix: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Leaves by their path. A list of plain values is one leaf, and so is what is empty."""
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            yield from flat(item, f"{path}{separator}", separator)
        elif isinstance(item, Sequence) and not isinstance(item, str) and item:
            if any(isinstance(one, Mapping | list) for one in item):
                yield from flat({str(number): one for number, one in enumerate(item)}, f"{path}{separator}", separator)
            else:
                yield path, ", ".join(map(str, item))
        else:
            yield path, item


def fact(value: Any) -> Fact:
    if value is None or value in EMPTY:
        return "none" if value is None else str(value)
    if isinstance(value, str):
        return text(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def text(text: str) -> str:
    """As :func:`plain`, and no longer than a reviewer reads."""
    shown = plain(text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}... (sha256 {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]})"


def plain(text: str) -> str:
    """In ASCII, on one line."""
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
