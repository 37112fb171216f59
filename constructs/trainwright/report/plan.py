"""The plan as a person reads it: numbers with their reasons, no Kubernetes needed; and two plans side by side."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from trainwright.compile import CompiledRun
from trainwright.findings import Finding, Severity, visible
from trainwright.findings.locate import Locator, dotted, escape, tokens
from trainwright.handshake import Role
from trainwright.manifest.supporting import fences
from trainwright.manifest.template.containers import all_stated
from trainwright.manifest.template.volumes import shared_memory
from trainwright.model import changed_fields
from trainwright.plan import Plan
from trainwright.plan.estimate.scaling import Efficiency, scaling
from trainwright.plan.incident import incident
from trainwright.plan.model import AmountPlan, ElasticPlan, MemoryPlan
from trainwright.plan.security import describe_security
from trainwright.report.finding import to_json
from trainwright.run import AnyContainer, CommandWorkload, Run, ScriptWorkload
from trainwright.run.roles import RoleParts
from trainwright.units import GIB, counted
from trainwright_trainer.contract.metrics import Sink, TensorBoard

WIDTH = 14


def plan_lines(compiled: CompiledRun, locate: Locator | None = None) -> list[str]:
    """A title and one aligned line a subject; with a locator also what the run has from the defaults of its project."""
    plan = compiled.plan
    title = f"{plan.name} on {plan.cluster} · {plan.topology} · {plan.target_title}"
    *rows, findings = plan_rows(compiled)
    places = default_places(locate) if locate else {}
    cited = ", ".join(f"{name} from {where}" for name, where in places.items())
    rows += [("defaults", cited)] if cited else []
    return [visible(line) for line in (title, *(f"  {label:<{WIDTH}}{text}" for label, text in (*rows, findings)))]


def default_places(locate: Locator) -> dict[str, str]:
    """What the run has from defaults, such as ``restarts`` or ``env.HF_HOME`` -> the file and line that say it."""
    defaulted = locate.defaulted
    pointers = [
        pointer
        for field, value in defaulted.values.items()
        for pointer in ([f"/{escape(field)}"] if f"/{escape(field)}" in defaulted.positions and not isinstance(value, Mapping)
                        else [f"/{escape(field)}/{escape(str(key))}" for key in value])
    ]
    return {dotted(tokens(pointer)): f"{defaulted.file}:{locate.run(pointer).line}" for pointer in pointers}


def plan_data(plan: Plan) -> dict[str, Any]:
    """The same numbers for a program: plain JSON, sizes in bytes, CPUs in millicores."""
    data = _mapping(plan)
    if plan.memory is not None:
        data["memory"] |= {"low": plan.memory.low, "high": plan.memory.high}
    if plan.memory is not None and plan.memory.host is not None:
        data["memory"]["host"] |= {"low": plan.memory.host.low, "high": plan.memory.host.high}
    if plan.gang is not None:
        data["gang"]["made_by"] = plan.gang.made_by.value
    for entry, variable in zip(data["environment"], plan.environment, strict=True):
        for kind in ("secret", "config_map"):
            reference = getattr(variable, kind)
            entry[kind] = None if reference is None else reference.model_dump()
    return data


def _mapping(record: Any) -> dict[str, Any]:
    """Field -> value of a record, and of the records in it."""
    return {name: _plain(value) for name, value in zip(record._fields, record, strict=True)}


def _plain(value: Any) -> Any:
    if hasattr(value, "_fields"):
        return _mapping(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)  # a quantity
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def plan_rows(compiled: CompiledRun) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    plan, overridden = compiled.plan, compiled.overridden
    yield _ranks(plan)
    if plan.batch:
        batch = plan.batch
        yield "batch", f"{batch.effective} = micro {batch.micro} x accumulation {batch.accumulation} x {batch.ranks} ranks"
    if plan.learning_rate:
        rate = plan.learning_rate
        warmup = f", {rate.warmup_steps:,} warm-up steps" if rate.warmup_steps else ", no warm-up"
        yield "learning rate", f"{rate.peak:.1e}{warmup} ({rate.reason})"
    if plan.elastic:
        yield "elastic", _elastic(plan.elastic)
    if plan.duration:
        yield "duration", _duration(plan)
    if compiled.run.trainer and (steps := compiled.run.trainer.skip_non_finite):
        yield "not finite", f"up to {counted(steps, 'step')} in a row left out"
    yield "memory", _memory(plan)
    if plan.memory and plan.memory.host:
        host = plan.memory.host
        yield "host memory", f"per rank {_interval(host.low, host.high)} of {_gib(host.limit)} GiB: {_parts(host)}"
    if plan.communication:
        traffic = plan.communication
        time = "" if traffic.seconds is None else f", {_seconds(traffic.seconds)} at the links' full rate"
        leaves = "" if traffic.leaves_node in (0, traffic.sent) else f", {_bytes(traffic.leaves_node)} from node to node"
        yield "traffic", f"{_bytes(traffic.sent)} a step and rank{leaves}{time}"
    if text := _scaling(compiled):
        yield "scaling", text
    yield "pod", _pod(compiled)
    if isinstance(compiled.run.workload, ScriptWorkload):
        yield "image", f"must have trainwright-trainer {compiled.run.trainer_version} in it, whose supervisor starts the program"
    if devices := compiled.run.resources.devices:
        yield "devices", ", ".join(f"{count or 'no'} {name}" for name, count in sorted(devices.items())) + " a pod (as asked)"
    if own := [f"{name}: {', '.join(said)}" for name, parts in compiled.run.roles.items() if (said := list(_of_role(parts)))]:
        yield "roles", "; ".join(own)
    if further := [_further(compiled, role) for role in compiled.resolution.binding.roles if role.further]:
        yield "further roles", "; ".join(further)
    if autoscaled := compiled.resolution.needs.autoscaled:
        yield "autoscaling", ", ".join(f"{name} {least} to {most} pods" for name, (least, most) in autoscaled.items())
    if stated := all_stated(compiled.resolution):
        yield "containers", ", ".join(_brought(one.container, one.source) for one in stated)
    if plan.data:
        yield "data", ", ".join(f"{data.path}, once, from {data.source} (claim {data.claim})" for data in plan.data)
    yield "rendezvous", _rendezvous(compiled)
    if plan.control:
        fence = "a NetworkPolicy admits this run's pods" if fences(compiled.resolution) else "no NetworkPolicy fences the pods"
        yield "control", f"{plan.control.shown}; {fence}"
    if plan.gang:
        gang = plan.gang
        who = f"made by {gang.made_by.value}"
        yield "gang", f"{gang.scheduler} starts {gang.minimum} pods together ({gang.minimum_reason}); {who}"
    if plan.placement:
        yield "placement", f"one pod a node, so {counted(plan.placement.nodes, 'node')} ({plan.placement.reason})"
    if restarts := _restarts(compiled):
        yield "restarts", restarts
    if cost := _incident(compiled):
        yield "lost pods", cost
    if (ends := compiled.resolution.binding.recovery.first_ends) and not compiled.resolution.supervised:
        yield "end", ends
    yield "checkpoints", _checkpoints(plan)
    if start := compiled.run.resume_from:
        yield "starts from", f"{start}, which it only reads"
    yield from _supervision(compiled.run)
    yield "guarantees", ", ".join(plan.guarantees) or "none: the work is an opaque command"
    yield from _security(compiled)
    if overridden:
        yield "overrides", f"{len(overridden)}: {', '.join(overridden)}"
    yield "findings", _findings(compiled.findings)


def _rendezvous(compiled: CompiledRun) -> str:
    rendezvous = compiled.plan.rendezvous
    if not compiled.resolution.needs.talk:
        return "none: the pods are independent; each knows its number (NODE_RANK) and how many there are (NNODES)"
    return f"{rendezvous.kind}, {rendezvous.host}:{rendezvous.port}"


def _security(compiled: CompiledRun) -> Iterator[tuple[str, str]]:
    """Who the processes are, where that is not simply the trainer's own user; and what is weaker than `restricted`."""
    security = compiled.plan.security
    if security.sources or isinstance(compiled.run.workload, CommandWorkload | ScriptWorkload):
        yield "security", describe_security(security)
    if compiled.security:
        yield "pod security", compiled.security


def _pod(compiled: CompiledRun) -> str:
    """What a pod with ranks asks for; of each role by itself where they differ."""
    texts = {role.name: _of_ranks(compiled, role) for role in compiled.resolution.binding.roles if role.holds_ranks}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _of_ranks(compiled: CompiledRun, role: Role) -> str:
    resources, operator = compiled.resolution.resources(role), compiled.target.operator
    mounted = shared_memory(compiled.resolution, role)
    shared = f"as {operator.name} mounts it" if operator and mounted is None else resources.shm
    amounts = {amount.name: amount for amount in compiled.resolution.amounts(role)}
    cpu, memory = (_asked_of(name, amounts.get(name)) for name in ("cpu", "memory"))
    further = [f", {one.limit} {name}" for name, one in amounts.items() if name not in ("cpu", "memory") and "/" not in name]
    return f"{cpu}, {memory} ({resources.memory_reason}), shared memory {shared}{''.join(further)}"


def _of_role(parts: RoleParts) -> Iterator[str]:
    """What the pods of a role of the topology have of their own, besides resources."""
    if parts.is_further:
        return
    if parts.image:
        yield f"image {parts.image}"
    if parts.command or parts.args:
        yield f"{'runs' if parts.command else 'arguments'} {shlex.join((*(parts.command or ()), *parts.args))}"
    if parts.working_dir:
        yield f"in {parts.working_dir}"
    if parts.env:
        yield f"variables {', '.join(parts.env)}"
    if parts.node_pool:
        yield f"node pool {parts.node_pool}"
    if parts.ports:
        yield f"ports {', '.join(f'{name} {number}' for name, number in parts.ports.items())}"
    if parts.ready:
        yield "a probe of its own"


def _further(compiled: CompiledRun, role: Role) -> str:
    """``evaluator: 1 pod of 1 GPU, 16 CPU, 64Gi memory in pool h100, starts when the ranks are ready``."""
    further, resolution = role.further, compiled.resolution
    assert further is not None  # noqa: S101 - asked of those alone
    gpus = compiled.run.roles[role.name].gpus
    amounts = {amount.name: amount for amount in resolution.amounts(role)}
    cpu, memory = (_asked_of(name, amounts.get(name)) for name in ("cpu", "memory"))
    each = ", ".join([*([counted(gpus, "GPU")] if gpus else []), cpu, memory])
    order = {"before": ", ready before the ranks start", "with": "", "after": ", starts when the ranks are ready"}[further.starts]
    ends = ", must end too" if further.must_end else ""
    return f"{role.name}: {counted(role.pods, 'pod')} of {each} in pool {resolution.pool_of(role)[0]}{order}{ends}"


def _brought(container: AnyContainer, source: str) -> str:
    of_pool = ", of the pool" if source.startswith("cluster:") else ""
    return f"{container.name} ({container.kind}{of_pool}; {container.cpu} CPU, {container.memory})"


def _asked_of(name: str, amount: AmountPlan | None) -> str:
    """The limit, and what is requested where that is something else."""
    label = {"cpu": "CPU"}.get(name, name)
    if amount is None:
        return f"{label} neither requested nor limited"
    if amount.limit is None:
        return f"{amount.request} {label} requested, without a limit"
    return f"{amount.limit} {label}" + ("" if amount.request == amount.limit else f" ({amount.request} requested)")


def _restarts(compiled: CompiledRun) -> str:
    """Where they are not simply the number that the run states: what does not count, and what counts more than once."""
    run, resolution = compiled.run, compiled.resolution
    binding, elastic = resolution.binding, resolution.needs.elastic
    recovery = binding.recovery
    if not resolution.needs.talk and run.on_disruption != "fail":
        return f"{run.restarts} of each pod, by itself; an evicted pod comes back, uncounted"
    if run.on_disruption == "fail":
        return f"{run.restarts} after failures; the eviction of a pod ends the run"
    if run.restarts == 0 and (recovery.disruption_rule or not recovery.counts_new_pods):
        unless = ", since on_disruption is not fail" if recovery.disruption_rule else ""
        return f"none after failures; an evicted pod comes back, uncounted{unless}"
    supervised = resolution.processes[binding.ranks.name].supervised
    if run.restarts and elastic and not recovery.counts_new_pods and not supervised:
        most = run.restarts * elastic.maximum
        return f"{run.restarts} of all {elastic.maximum} pods, or {most:,} of one pod at a time: the operator adds up pods"
    return ""


def _incident(compiled: CompiledRun) -> str:
    """What the eviction of a pod costs, unless it ends the run."""
    resolution = compiled.resolution
    if compiled.run.on_disruption == "fail":
        return ""
    return incident(resolution.binding, resolution.needs, resolution.supervised)


def _supervision(run: Run) -> Iterator[tuple[str, str]]:
    """What the run states of how it is watched, as far as it is not the default."""
    if run.trainer and run.trainer.metrics:
        yield "metrics", ", ".join(_sink(sink) for sink in run.trainer.metrics)
    for label, settings in (("watchdog", run.watchdog), ("preflight", run.preflight)):
        if changes := changed_fields(settings):
            yield label, ", ".join(f"{key.replace('_', ' ')} {_amount(value)}" for key, value in changes.items())


def _amount(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sink(sink: Sink) -> str:
    if isinstance(sink, TensorBoard):
        return "TensorBoard"
    owner = f"{sink.entity}/" if sink.entity else ""
    return f"Weights & Biases {owner}{sink.project}{' (offline)' if sink.mode == 'offline' else ''}"


def _scaling(compiled: CompiledRun) -> str:
    """What a model on paper says of more GPUs, and what it assumes; see docs/scaling.md."""
    run, plan = compiled.run, compiled.plan
    if run.trained is None or plan.batch is None:
        return ""
    found = scaling(run.trained, plan.batch, run.topology.sharding(), compiled.resolution.pool)
    one_node = run.topology.needs().gpus_per_node
    sizes = [f"{share(each)} of {each.gpus:,} GPUs" for each in found.efficiencies if each.gpus > one_node] if found else []
    return f"{'; '.join(sizes)} (assumed: {', '.join(found.assumed)})" if found and sizes else ""


def share(efficiency: Efficiency) -> str:
    """An efficiency in percent, as an interval where it is one."""
    low, high = round(100 * efficiency.low), round(100 * efficiency.high)
    return f"{high} %" if low == high else f"{low} to {high} %"


def _ranks(plan: Plan) -> tuple[str, str]:
    world = plan.world
    nodes = counted(world.nodes, "node")
    if world.gpus_per_node:
        gpus = counted(world.nodes * world.gpus_per_node, "GPU")
        return gpus, f"{nodes} x {world.gpus_per_node} {world.machine} (pool {world.pool})"
    each = counted(world.processes_per_node, "rank")
    return counted(world.size, "CPU rank"), f"{nodes} with {world.machine}, {each} each (pool {world.pool})"


def _duration(plan: Plan) -> str:
    duration = plan.duration
    assert duration is not None  # noqa: S101 - asked only where there is one
    epochs = f"{duration.epochs:g} {'epoch' if duration.epochs == 1 else 'epochs'}" if duration.epochs else ""
    steps = counted(duration.steps, "step") if duration.steps else ""
    return f"{' = '.join(part for part in (epochs, steps) if part)} ({duration.reason})"


def _elastic(elastic: ElasticPlan) -> str:
    """The two ends, and what happens to batch and learning rate between them."""
    low, high = elastic.sizes[0], elastic.sizes[-1]
    ends = f"{low.nodes} to {high.nodes} nodes"
    if elastic.keeps_batch:
        uneven = _listed([str(size.nodes) for size in elastic.sizes if not size.full])
        smaller = f"; smaller last micro batches at {uneven} nodes" if uneven else ""
        return f"{ends}: the batch stays {low.effective}, by accumulation {low.accumulation} to {high.accumulation}{smaller}"
    rates = "" if low.peak is None or high.peak is None else f", the learning rate from {low.peak:.1e} to {high.peak:.1e}"
    return f"{ends}: the batch moves from {low.effective} to {high.effective}{rates}"


def _listed(words: Sequence[str]) -> str:
    """``3, 5 and 6``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _memory(plan: Plan) -> str:
    memory = plan.memory
    if memory is None:
        return f"not known: {plan.memory_unknown}"
    per = "per GPU" if plan.world.gpus_per_node else "per rank"
    return f"{per} {_interval(memory.low, memory.high)} of {_gib(memory.limit)} GiB: {_parts(memory)}"


def _parts(memory: MemoryPlan) -> str:
    return ", ".join(f"{part.name} {_interval(part.low, part.high)}" for part in memory.parts)


def _checkpoints(plan: Plan) -> str:
    checkpoint, grace = plan.checkpoint, plan.grace
    if plan.saved_by == "unknown" or checkpoint is None:
        told = f"the program is told {checkpoint.directory}; " if checkpoint else ""
        return f"not known: nobody says who saves (checkpoints.by); {told}{grace.seconds} s grace"
    if plan.saved_by == "own":
        return f"{checkpoint.saves_to}, by the program itself; {grace.seconds} s grace"
    if checkpoint.size is None:
        return f"{checkpoint.directory} {checkpoint.every}, of a size that is not known; {grace.seconds} s grace"
    waits = "" if checkpoint.background or plan.workload != "trainer" else ", training waits for it"
    return (f"{checkpoint.directory} {checkpoint.every}, about {_bytes(checkpoint.size)}, "
            f"save {_seconds(checkpoint.save_seconds)} of {grace.seconds} s grace{waits}")


def _seconds(seconds: float | None) -> str:
    return f"{round(seconds, 1):g} s" if seconds and seconds >= 1 else "under 1 s"


def _findings(findings: Sequence[Finding]) -> str:
    counts = []
    for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "note")):
        codes = [finding.code for finding in findings if finding.severity is severity]
        if codes:
            counts.append(f"{len(codes)} {word}{'s' if len(codes) > 1 else ''} ({', '.join(dict.fromkeys(codes))})")
    return ", ".join(counts) or "none"


def _interval(low: int, high: int) -> str:
    return _gib(low) if _gib(low) == _gib(high) else f"{_gib(low)} to {_gib(high)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}" if size >= GIB / 20 or size == 0 else f"{size / GIB:.1g}"


def _bytes(size: int) -> str:
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def difference_lines(before: CompiledRun, after: CompiledRun) -> list[str]:
    """A title, the rows of the plan that differ as ``before -> after``, the objects, and the rows that stay."""
    title = f"{before.plan.run}: {before.plan.target_title} -> {after.plan.target_title}"
    return [visible(line) for line in (title, *(f"  {label:<{WIDTH}}{text}" for label, text in _rows(before, after)))]


def difference_data(before: CompiledRun, after: CompiledRun) -> dict[str, Any]:
    """The same for a program, with both plans: ``before``, ``after``, what is ``changed`` by its row, and ``same``."""
    compared = _compared(before, after)
    return {
        "before": compiled_data(before),
        "after": compiled_data(after),
        "changed": {label: {"before": old, "after": new} for label, (old, new) in compared.items() if old != new}
        | {"objects": {"before": _kinds(before.manifests), "after": _kinds(after.manifests)}},
        "same": [label for label, (old, new) in compared.items() if old == new],
    }


def compiled_data(compiled: CompiledRun) -> dict[str, Any]:
    """A plan with its findings, as plain JSON."""
    return plan_data(compiled.plan) | {"findings": to_json(compiled.findings)}


def _rows(before: CompiledRun, after: CompiledRun) -> Iterator[tuple[str, str]]:
    compared = _compared(before, after)
    for label, (old, new) in compared.items():
        if old != new:
            yield label, f"{old or 'nothing'} -> {new or 'nothing'}"
    yield "objects", f"{_kinds(before.manifests)} -> {_kinds(after.manifests)}"
    yield "the same", ", ".join(label for label, (old, new) in compared.items() if old == new) or "nothing"


def _compared(before: CompiledRun, after: CompiledRun) -> dict[str, tuple[str | None, str | None]]:
    """Label -> what the row says in each of the two plans; None where one has no such row."""
    old, new = dict(plan_rows(before)), dict(plan_rows(after))
    return {label: (old.get(label), new.get(label)) for label in dict.fromkeys((*old, *new))}


def _kinds(manifests: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(str(manifest["kind"]) for manifest in manifests)
    return ", ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items())
