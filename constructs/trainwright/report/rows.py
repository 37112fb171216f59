"""What rows of the printed plan say: numbers with their reasons, and no Kubernetes needed.

Which rows there are, and in which order, is in ``report/facts.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from trainwright.compile import CompiledRun
from trainwright.findings import Finding, Severity
from trainwright.handshake import Bounds, Role
from trainwright.manifest.supporting import fences
from trainwright.manifest.template.volumes import shared_memory
from trainwright.model import Model, changed_fields
from trainwright.plan.estimate.scaling import Efficiency
from trainwright.plan.estimate.scaling import scaling as scaling_of
from trainwright.plan.incident import LOSSES, delay, delayed, impatient, incident
from trainwright.plan.model import (
    AmountPlan,
    BatchPlan,
    CommunicationPlan,
    DataPlan,
    DurationPlan,
    ElasticPlan,
    GangPlan,
    LearningRatePlan,
    MemoryPlan,
    PlacementPlan,
)
from trainwright.plan.packages import FOLDER, packages_of
from trainwright.plan.security import describe_security
from trainwright.run import AnyContainer, CommandWorkload, Run, ScriptWorkload
from trainwright.run.roles import RoleParts
from trainwright.units import GIB, counted
from trainwright_trainer.contract.metrics import Sink, TensorBoard


def size(compiled: CompiledRun) -> str:
    """What the row of the machines is called: ``32 GPUs``."""
    world = compiled.plan.world
    return counted(world.nodes * world.gpus_per_node, "GPU") if world.gpus_per_node else counted(world.size, "CPU rank")


def machines(compiled: CompiledRun) -> str:
    world = compiled.plan.world
    nodes = counted(world.nodes, "node")
    if world.gpus_per_node:
        return f"{nodes} x {world.gpus_per_node} {world.machine} (pool {world.pool})"
    return f"{nodes} with {world.machine}, {counted(world.processes_per_node, 'rank')} each (pool {world.pool})"


def batch(plan: BatchPlan) -> str:
    return f"{plan.effective} = micro {plan.micro} x accumulation {plan.accumulation} x {plan.ranks} ranks"


def learning_rate(rate: LearningRatePlan) -> str:
    warmup = f", {rate.warmup_steps:,} warm-up steps" if rate.warmup_steps else ", no warm-up"
    return f"{rate.peak:.1e}{warmup} ({rate.reason})"


def elastic(plan: ElasticPlan) -> str:
    """The two ends, and what happens to batch and learning rate between them."""
    low, high = plan.sizes[0], plan.sizes[-1]
    ends = f"{low.nodes} to {high.nodes} nodes"
    if plan.keeps_batch:
        uneven = _listed([str(each.nodes) for each in plan.sizes if not each.full])
        smaller = f"; smaller last micro batches at {uneven} nodes" if uneven else ""
        return f"{ends}: the batch stays {low.effective}, by accumulation {low.accumulation} to {high.accumulation}{smaller}"
    rates = "" if low.peak is None or high.peak is None else f", the learning rate from {low.peak:.1e} to {high.peak:.1e}"
    return f"{ends}: the batch moves from {low.effective} to {high.effective}{rates}"


def _listed(words: Sequence[str]) -> str:
    """``3, 5 and 6``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def duration(plan: DurationPlan) -> str:
    epochs = f"{plan.epochs:g} {'epoch' if plan.epochs == 1 else 'epochs'}" if plan.epochs else ""
    steps = counted(plan.steps, "step") if plan.steps else ""
    return f"{' = '.join(part for part in (epochs, steps) if part)} ({plan.reason})"


def not_finite(compiled: CompiledRun) -> str:
    steps = compiled.run.trainer and compiled.run.trainer.skip_non_finite
    return f"up to {counted(steps, 'step')} in a row left out" if steps else ""


def memory(compiled: CompiledRun) -> str:
    plan = compiled.plan
    per = "GPU" if plan.world.gpus_per_node else "rank"
    return _memory_of(plan.memory, per) if plan.memory else f"not known: {plan.memory_unknown}"


def host_memory(compiled: CompiledRun) -> str:
    host = compiled.plan.memory.host if compiled.plan.memory else None
    return _memory_of(host, "rank") if host else ""


def _memory_of(memory: MemoryPlan, owner: str) -> str:
    parts = ", ".join(f"{part.name} {_interval(part.low, part.high)}" for part in memory.parts)
    return f"per {owner} {_interval(memory.low, memory.high)} of {_gib(memory.limit)} GiB: {parts}"


def traffic(plan: CommunicationPlan) -> str:
    time = "" if plan.seconds is None else f", {_seconds(plan.seconds)} at the links' full rate"
    leaves = "" if plan.leaves_node in (0, plan.sent) else f", {_bytes(plan.leaves_node)} from node to node"
    return f"{_bytes(plan.sent)} a step and rank{leaves}{time}"


def scaling(compiled: CompiledRun) -> str:
    """What a model on paper says of more GPUs, and what it assumes; see docs/scaling.md."""
    run, plan = compiled.run, compiled.plan
    if run.trained is None or plan.batch is None:
        return ""
    found = scaling_of(run.trained, plan.batch, run.topology.sharding(), compiled.resolution.pool)
    one_node = run.topology.needs().gpus_per_node
    sizes = [f"{share(each)} of {each.gpus:,} GPUs" for each in found.efficiencies if each.gpus > one_node] if found else []
    return f"{'; '.join(sizes)} (assumed: {', '.join(found.assumed)})" if found and sizes else ""


def share(efficiency: Efficiency) -> str:
    """An efficiency in percent, as an interval where it is one."""
    low, high = round(100 * efficiency.low), round(100 * efficiency.high)
    return f"{high} %" if low == high else f"{low} to {high} %"


def pod(compiled: CompiledRun) -> str:
    """What a pod with ranks asks for; of each role by itself where they differ."""
    texts = {role.name: _of_ranks(compiled, role) for role in compiled.resolution.binding.roles if role.holds_ranks}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _of_ranks(compiled: CompiledRun, role: Role) -> str:
    resources, operator = compiled.resolution.counted[role.name], compiled.target.operator
    mounted = shared_memory(compiled.resolution, role)
    shared = f"as {operator.name} mounts it" if operator and mounted is None else resources.shm
    amounts, cpu, memory = _amounts(compiled, role)
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
    _, cpu, memory = _amounts(compiled, role)
    each = ", ".join([*([counted(gpus, "GPU")] if gpus else []), cpu, memory])
    order = {
        "first": ", ended before the ranks start", "before": ", ready before the ranks start", "with": "",
        "after": ", starts when the ranks are ready",
    }[further.starts]  # fmt: skip
    ends = ", must end too" if further.must_end else ""
    return f"{role.name}: {counted(role.pods, 'pod')} of {each} in pool {resolution.pool_of(role)[0]}{order}{ends}"


def container(container: AnyContainer, source: str) -> str:
    of_pool = ", of the pool" if source.startswith("cluster:") else ""
    return f"{container.name} ({container.kind}{of_pool}; {container.cpu} CPU, {container.memory})"


def _amounts(compiled: CompiledRun, role: Role) -> tuple[dict[str, AmountPlan], str, str]:
    """What a pod asks for by name, and its CPU and memory in words."""
    amounts = {amount.name: amount for amount in compiled.resolution.amounts[role.name]}
    return amounts, _asked_of("cpu", amounts.get("cpu")), _asked_of("memory", amounts.get("memory"))


def _asked_of(name: str, amount: AmountPlan | None) -> str:
    """The limit, and what is requested where that is something else."""
    label = {"cpu": "CPU"}.get(name, name)
    if amount is None:
        return f"{label} neither requested nor limited"
    if amount.limit is None:
        return f"{amount.request} {label} requested, without a limit"
    return f"{amount.limit} {label}" + ("" if amount.request == amount.limit else f" ({amount.request} requested)")


def supervisor(compiled: CompiledRun) -> str:
    run = compiled.run
    if not isinstance(run.workload, ScriptWorkload | CommandWorkload) or not run.supervised:
        return ""
    if brought := compiled.plan.supervisor:
        return f"needs nothing of ours: the supervisor, trainwright-trainer {run.trainer_version}, is {brought.cost}"
    return f"must have trainwright-trainer {run.trainer_version} in it, whose supervisor starts the program"


def devices(counts: Mapping[str, int]) -> str:
    asked = [f"{count or 'no'} {name}" for name, count in sorted(counts.items())]
    return f"{', '.join(asked)} a pod (as asked)" if asked else ""


def roles(stated: Mapping[str, RoleParts]) -> str:
    own = ((name, ", ".join(_of_role(parts))) for name, parts in stated.items())
    return "; ".join(f"{name}: {texts}" for name, texts in own if texts)


def further_roles(compiled: CompiledRun) -> str:
    return "; ".join(_further(compiled, role) for role in compiled.resolution.binding.roles if role.further)


def autoscaling(autoscaled: Mapping[str, Bounds]) -> str:
    return ", ".join(f"{name} {least} to {most} pods" for name, (least, most) in autoscaled.items())


def packages(compiled: CompiledRun) -> str:
    lines = (package.partition(";")[0].partition(" --hash")[0] for package in packages_of(compiled.run))
    names = [" ".join(part.strip() for part in line.split("==")) for line in lines]
    if not names:
        return ""
    where = f"from {compiled.cluster.package_index}, into {FOLDER}"
    return f"{', '.join(names)}: installed in every pod with ranks before it starts, {where}"


def fetched(data: Sequence[DataPlan]) -> str:
    return ", ".join(f"{one.path}, once, from {one.source} (claim {one.claim})" for one in data)


def initializers(run: Run) -> str:
    stated = run.initializer.stated if run.initializer else {}
    return ", ".join(
        f"{part} {told.storage_uri or 'as the runtime says'}, by Job {part}-initializer of the runtime, before the pods start"
        for part, told in stated.items()
    )


def rendezvous(compiled: CompiledRun) -> str:
    plan = compiled.plan.rendezvous
    if not compiled.resolution.needs.talk:
        return "none: the pods are independent; each knows its number (NODE_RANK) and how many there are (NNODES)"
    return f"{plan.kind}, {plan.host}:{plan.port}"


def control(compiled: CompiledRun) -> str:
    plan = compiled.plan.control
    fence = "a NetworkPolicy admits this run's pods" if fences(compiled.resolution) else "no NetworkPolicy fences the pods"
    return f"{plan.shown}; {fence}" if plan else ""


def gang(plan: GangPlan) -> str:
    return f"{plan.scheduler} starts {plan.minimum} pods together ({plan.minimum_reason}); made by {plan.made_by.value}"


def placement(plan: PlacementPlan) -> str:
    return f"one pod a node, so {counted(plan.nodes, 'node')} ({plan.reason})"


def guarantees(compiled: CompiledRun) -> str:
    why = "the runtime's rules are not this run's" if compiled.resolution.binding.runtime else "the work is an opaque command"
    return ", ".join(compiled.plan.guarantees) or f"none: {why}"


def runtime(compiled: CompiledRun) -> str:
    name = compiled.resolution.binding.runtime
    kind = compiled.cluster.runtimes[name].kind if name else ""
    return f"{name}, an installed {kind}: it says how often pods restart, what they may do, and who watches them" if name else ""


def restarts(compiled: CompiledRun) -> str:
    """Where they are not simply the number that the run states: what does not count, and what counts more than once."""
    if name := compiled.resolution.binding.runtime:
        return f"as runtime {name} has it"
    run, resolution = compiled.run, compiled.resolution
    binding, elastic = resolution.binding, resolution.needs.elastic
    if not resolution.needs.talk and run.on_disruption != "fail":
        return f"{run.restarts} of each pod, by itself; an evicted pod comes back, uncounted"
    if run.on_disruption == "fail":
        return f"{run.restarts} after failures; the eviction of a pod ends the run"
    if run.restarts == 0 and (binding.recovery.disruption_rule or not binding.recovery.counts_new_pods):
        unless = ", since on_disruption is not fail" if binding.recovery.disruption_rule else ""
        return f"none after failures; an evicted pod comes back, uncounted{unless}"
    supervised = resolution.processes[binding.ranks.name].supervised
    if run.restarts and elastic and not binding.recovery.counts_new_pods and not supervised:
        most = run.restarts * elastic.maximum
        return f"{run.restarts} of all {elastic.maximum} pods, or {most:,} of one pod at a time: the operator adds up pods"
    return ""


def lost_pods(compiled: CompiledRun) -> str:
    """What the eviction of a pod costs, unless it ends the run."""
    resolution = compiled.resolution
    if compiled.run.on_disruption == "fail" or resolution.binding.runtime:
        return ""
    recovery = compiled.plan.recovery
    said = incident(resolution.binding, resolution.needs, resolution.supervised, recovery)
    others = (resolution.needs.nodes - 1) * resolution.needs.gpus_per_node
    if recovery is None or not recovery.in_place or others < 1:
        return said
    most, gpus = recovery.wait.seconds, counted(others, "GPU")
    if not delayed(resolution.binding, resolution.supervised):
        return f"{said}. {gpus} that wait so long cost {_gpu_hours(others, most)} GPU-hours"
    first, *more = (_gpu_hours(others, min(delay(number), most)) for number in LOSSES)
    costs = f"at least {first}, then {', '.join(more)} GPU-hours, and {_gpu_hours(others, most)} at most"
    return f"{said}. {gpus} that wait cost {costs}"


def _gpu_hours(gpus: int, seconds: int) -> str:
    return f"{float(f'{gpus * seconds / 3600:.2g}'):,g}"


def waits(compiled: CompiledRun) -> str:
    """Who ends the pods that are left, while others come back."""
    resolution = compiled.resolution
    found = impatient(compiled.run, resolution.cluster, resolution.needs, compiled.target.operators)
    return "; ".join(one.said for one in found)


def checkpoints(compiled: CompiledRun) -> str:
    plan, own, grace = compiled.plan, compiled.plan.checkpoint, compiled.plan.grace
    if plan.saved_by == "unknown" or own is None:
        directory = f"the program is told {own.directory}; " if own else ""
        return f"not known: nobody says who saves (checkpoints.by); {directory}{grace.seconds} s grace"
    if plan.saved_by == "own":
        return f"{own.saves_to}, by the program itself; {grace.seconds} s grace"
    if plan.saved_by == "script":
        return f"{own.directory}, when the script commits, {own.keep} of them stay; {grace.seconds} s grace"
    if own.size is None:
        return f"{own.directory} {own.every}, of a size that is not known; {grace.seconds} s grace"
    waits = "" if own.background or plan.workload != "trainer" else ", training waits for it"
    return (f"{own.directory} {own.every}, about {_bytes(own.size)}, "
            f"save {_seconds(own.save_seconds)} of {grace.seconds} s grace{waits}")


def metrics(compiled: CompiledRun) -> str:
    return ", ".join(map(_sink, compiled.run.trainer.metrics)) if compiled.run.trainer else ""


def changed(settings: Model) -> str:
    """What a run states of how it is watched, as far as it is not the default."""
    return ", ".join(f"{key.replace('_', ' ')} {_amount(value)}" for key, value in changed_fields(settings).items())


def _amount(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sink(sink: Sink) -> str:
    if isinstance(sink, TensorBoard):
        return "TensorBoard"
    owner = f"{sink.entity}/" if sink.entity else ""
    return f"Weights & Biases {owner}{sink.project}{' (offline)' if sink.mode == 'offline' else ''}"


def security(compiled: CompiledRun) -> str:
    """Who the processes are, where that is not simply the trainer's own user."""
    own = compiled.plan.security
    said = own.sources or isinstance(compiled.run.workload, CommandWorkload | ScriptWorkload)
    return describe_security(own) if said else ""


def overrides(places: Sequence[str]) -> str:
    return f"{len(places)}: {', '.join(places)}" if places else ""


def findings(findings: Sequence[Finding]) -> str:
    coded = {severity: [one.code for one in findings if one.severity is severity] for severity in Severity}
    counts = ((counted(len(codes), severity.value), dict.fromkeys(codes)) for severity, codes in coded.items() if codes)
    return ", ".join(f"{count} ({', '.join(codes)})" for count, codes in counts) or "none"


def _seconds(seconds: float | None) -> str:
    return f"{round(seconds, 1):g} s" if seconds and seconds >= 1 else "under 1 s"


def _interval(low: int, high: int) -> str:
    return _gib(low) if _gib(low) == _gib(high) else f"{_gib(low)} to {_gib(high)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}" if size >= GIB / 20 or size == 0 else f"{size / GIB:.1g}"


def _bytes(size: int) -> str:
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
