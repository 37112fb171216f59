"""What a RayJob can carry, and what its operator asks of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import escape
from trainwright.operators.base import Rule
from trainwright.operators.kuberay.cluster import HEAD, METRICS_PORT, RAY_PORTS, ray_version
from trainwright.plan import Resolution
from trainwright.rendezvous.ray import cluster_of
from trainwright.run import CommandWorkload, RoleParts

if TYPE_CHECKING:
    from trainwright.findings.context import Context

_PLAIN = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)
"""What both shells on the way read alike: the characters that need no quotes, and the blank."""


def work_starts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What Ray's driver can be: our supervisor, or a program that calls Ray itself."""
    work = context.run.workload
    if not isinstance(work, CommandWorkload):
        return
    if not (work.command or work.args):
        message = "Ray replaces the entrypoint of every pod, so without a command its job has nothing to run"
        yield found("TW424", context.locate.run("/workload"), message, "write the driver's command under workload.command")
    if work.args:
        message = "Ray replaces the entrypoint of every pod, so args alone start nothing: the driver needs a whole command"
        yield found("TW424", context.locate.run("/workload/args"), message, "write the whole command under command")
    if work.working_dir:
        message = "Ray starts the driver in a directory of its own"
        fix = "write it as working_dir under topology.runtime_env, or begin the command with the whole path of its file"
        yield found("TW424", context.locate.run("/workload/working_dir"), message, fix)
    for number, word in enumerate(work.command or ()):
        if not _PLAIN.fullmatch(word):
            message = f"`{word[:80]}` holds a character that a shell reads, and two shells read it on its way to the head"
            fix = "put the command into a file of the run (files), and start that: [bash, /app/start.sh]"
            yield found("TW424", context.locate.run(f"/workload/command/{number}"), message, fix)


def groups_are_plain(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A further role is a worker group here: its pods run Ray, and live as long as the cluster."""
    for role in resolution.binding.roles:
        parts = context.run.roles.get(role.name) if role.further else None
        usual = RoleParts.model_fields
        for field in (name for name in ("starts", "must_end", "ready") if parts and getattr(parts, name) != usual[name].default):
            message = f"role {role.name} is a group of Ray's workers, which come and go with the head, so {field} has no place"
            yield found("TW329", context.locate.run(f"/roles/{role.name}/{field}"), message, f"remove {field}")


def operator_starts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """In every pod it starts Ray, so no pod has room for another program."""
    for name, parts in context.run.roles.items():
        for field in ("command", "args"):
            if getattr(parts, field):
                message = f"{resolution.plan.target_title} starts Ray in every pod, and runs the program of the run on the head"
                where = context.locate.run(f"/roles/{name}/{field}")
                yield found("TW424", where, message, "remove it, and write the work under workload.command")


def ranks_stay_in_their_group(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Ray Train asks for CPUs and GPUs, and takes them where they are; our ranks find their specification in one group alone."""
    if isinstance(context.run.workload, CommandWorkload):
        return
    for role in (one for one in resolution.binding.roles if one.further):
        offers = "GPUs" if context.run.roles[role.name].gpus else "CPUs" if not resolution.needs.gpus_per_node else None
        if offers:
            message = f"Ray would start ranks on the {offers} of role {role.name}, which has no specification"
            fix = "remove gpus of the role" if offers == "GPUs" and resolution.needs.gpus_per_node else "remove the role"
            where = context.locate.run(f"/roles/{role.name}")
            yield found("TW458", where, message, f"{fix}; or write kind: command, with a program that says where its ranks go")


def ports_of_ray(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator knows Ray's own ports by their names (utils/constant.go); metrics are served in every pod."""
    for role in resolution.binding.roles:
        own = {**(RAY_PORTS if role.name == HEAD else {}), "metrics": METRICS_PORT}
        for port in resolution.processes[role.name].ports:
            for name, number in own.items():
                if (port.name == name) != (port.number == number):
                    message = f"port {port.name} ({port.number}) is taken: Ray has {name} at {number}"
                    where = context.locate.run(port.source.removeprefix("run:"))
                    yield found("TW460", where, message, "choose another name and number")


def autoscaler(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Who may be scaled, by whom, and behind which queue."""
    run, autoscaled = context.run, resolution.needs.autoscaled
    groups = {role.name: role.pods for role in resolution.binding.roles if role.name != HEAD}
    for name, bounds in autoscaled.items():
        where = context.locate.run(f"/topology/autoscaling/{name}")
        if name not in groups:
            yield found("TW327", where, f"no workers are called {name}", f"use one of: {', '.join(groups) or 'none: remove it'}")
        elif not bounds.least <= groups[name] <= bounds.most:
            counts = f"between {bounds.least} and {bounds.most}"
            message = f"role {name} begins with {groups[name]} pods, and the autoscaler keeps it {counts}"
            yield found("TW329", where, message, "widen the bounds, or change the number of pods")
    if autoscaled and not isinstance(run.workload, CommandWorkload):
        message = "the ranks are as many as the plan says, so no worker can come or go"
        fix = "remove topology.autoscaling, or write kind: command with a program that scales itself"
        yield found("TW458", context.locate.run("/topology/autoscaling"), message, fix)
    if autoscaled and run.queue and context.cluster.kueue:
        message = "Kueue admits a RayJob as a whole, and none whose autoscaler is on"
        yield found("TW458", context.locate.run("/topology/autoscaling"), message, "remove topology.autoscaling, or queue")


def version_is_known(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator asks which release of Ray it starts, and an image may say so itself."""
    head = resolution.binding.roles[0]
    stated, tagged = cluster_of(resolution.needs).version, ray_version(resolution.image(head)[0], None)
    if stated is None and tagged is None:
        fix = "add topology.version, the release of Ray in the image: `python -c 'import ray; print(ray.__version__)'`"
        message = "neither the run nor the image's tag says which release of Ray the image contains"
        yield found("TW426", context.locate.run("/image"), message, fix)
    elif stated is not None and tagged is not None and stated != tagged.value:
        message = f"topology.version is {stated}, and the image's tag says {tagged.value}"
        yield found("TW426", context.locate.run("/topology/version"), message, "remove version, or use the image of that release")


_STARTED = (
    "address", "autoscaling-config", "block", "dashboard-host", "dashboard-port", "head", "metrics-export-port", "no-monitor",
    "num-gpus", "port", "ray-client-server-port", "redis-password",
)
"""Options of ``ray start`` by which the operator makes a cluster of the pods (common/pod.go), and the number of GPUs."""


def started_as_planned(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the run says of ``ray start``, and what only a command's own cluster can be."""
    cluster, own = cluster_of(resolution.needs), isinstance(context.run.workload, CommandWorkload)
    if cluster.head_holds_ranks and not own:
        message = "the ranks are on Ray's workers, and the head has no specification for them"
        fix = "remove topology.head_is_node, or write kind: command"
        yield found("TW458", context.locate.run("/topology/head_is_node"), message, fix)
    known = [role.name for role in resolution.binding.roles]
    for role, params in cluster.start_params.items():
        where = f"/topology/start_params/{escape(role)}"
        if role not in known:
            message = f"{resolution.plan.target_title} has no role {role} for this run"
            yield found("TW327", context.locate.run(where), message, f"use one of: {', '.join(known)}")
        for name in params:
            if name in _STARTED:
                counted = "topology.gpus_per_node counts GPUs" if name == "num-gpus" else "the operator sets it"
                message = f"{name} is not the run's to set: {counted}"
                yield found("TW458", context.locate.run(f"{where}/{name}"), message, "remove it")
            elif (role, name) == (HEAD, "num-cpus") and not own:
                message = "Ray would place ranks on the head, which has no specification for them"
                yield found("TW458", context.locate.run(f"{where}/{name}"), message, "remove it, or write kind: command")


RULES: tuple[Rule, ...] = (
    started_as_planned, work_starts, version_is_known, groups_are_plain, operator_starts, ranks_stay_in_their_group, ports_of_ray,
    autoscaler,
)  # fmt: skip
