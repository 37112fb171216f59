"""Rules on environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.manifest.pods import FoundPod, containers_of
from trainwright.operators.base import RunPod
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.plan.network import RDMA, Fact, fabric_facts
from trainwright.program.values import variable_findings
from trainwright.rules.secrets import Environment, secret_findings
from trainwright.run import EnvValue

LONGEST_VARIABLE = 131_071
"""Bytes of a variable, its name and ``=`` among them (execve(2), MAX_ARG_STRLEN); with a longer one no program starts."""


class Stated(NamedTuple):
    """Variables that reach the ranks, and the place where a file states them."""

    env: Mapping[str, EnvValue]
    source: str
    """``run:/env``, ``cluster:/node_pools/NAME/pods/env``."""

    def at(self, context: Context, name: str) -> Where:
        return context.locate.at(f"{self.source}/{name}")


def stated_for_ranks(context: Context, resolution: Resolution) -> list[Stated]:
    """What the run states, its roles that run the work, and the pool; of the pool only what nobody states in its place."""
    run, pool = context.run, resolution.plan.world.pool
    works = [role.name for role in resolution.binding.roles if resolution.binding.runs_the_work(role) and not role.further]
    of_pool = {name: value for name, value in resolution.pool.pods.env.items() if name not in run.env}
    return [
        Stated(run.env, "run:/env"),
        *(Stated(run.roles[name].env, f"run:/roles/{escape(name)}/env") for name in works if name in run.roles),
        Stated(of_pool, f"cluster:/node_pools/{escape(pool)}/pods/env"),
    ]


def fabric(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Variables that the fabric decides, wherever they are stated."""
    for stated in stated_for_ranks(context, resolution):
        yield from fabric_findings(context, resolution, stated.env, partial(stated.at, context))


def fabric_findings(
    context: Context, resolution: Resolution, env: Mapping[str, EnvValue], where: Callable[[str], Where]
) -> Iterator[Finding]:
    """A run may say the same as the profile of its fabric, and nothing else."""
    for fact in stated_facts(env, resolution):
        value = env[fact.name]
        field = f"fabric.{fact.field} of pool {resolution.plan.world.pool} in cluster {context.cluster.cluster}"
        if not isinstance(value, str):
            message = f"{fact.name} follows from {field}"
            yield found("TW403", where(fact.name), message, "remove it: the network is no secret")
        elif not fact.agrees(value):
            message = f"{fact.name}={value} contradicts {field}, which is {_text(getattr(resolution.pool.fabric, fact.field))}"
            yield found("TW403", where(fact.name), message, "remove it; or correct the profile")
        else:
            yield found("TW416", where(fact.name), f"{fact.name}={value} repeats {field}", "remove it: the plan sets it")


def stated_facts(env: Environment, resolution: Resolution) -> list[Fact]:
    """What the fabric says about variables that somebody states; of those that the plan leaves to the library, only clear cases.
    """
    stated = [fact for fact in fabric_facts(resolution.pool.fabric, resolution.needs) if fact.name in env]
    return [fact for fact in stated if not fact.silent or env[fact.name] == fact.value or not fact.agrees(str(env[fact.name]))]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


NETWORKS = ("networking.gke.io/interfaces", "k8s.v1.cni.cncf.io/networks")
"""Annotations by which GKE and Multus give a pod further networks, and the adapters with them."""


def rdma(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """An RDMA fabric whose devices no pod gets: not by a resource of the profile, and not as an override may ask for them."""
    offered, needs, pool = resolution.pool.fabric, resolution.needs, resolution.plan.world.pool
    if offered.kind not in RDMA or offered.resource or not needs.spans_gpu_nodes:
        return
    ranks = {role.name for role in resolution.binding.roles if role.holds_ranks}
    if not all(_gets_devices(pod.found) for pod in pods if pod.role in ranks):
        where = context.locate.cluster(f"/node_pools/{escape(pool)}/fabric")
        message = f"the fabric of pool {pool} is {offered.kind}, and no pod gets one of its devices: they train over TCP"
        fix = (
            "name the extended resource of the device plugin in fabric.resource. Where pods get adapters as networks (GKE, "
            f"Multus), write {' or '.join(NETWORKS)} in fabric.pod_annotations of the pool, or in pod_annotations of the run. "
            "Where they get devices by dynamic resource allocation, write resource_claims. Or write kind: tcp, if you want TCP"
        )
        yield found("TW415", where, message, fix)


def _gets_devices(pod: FoundPod) -> bool:
    """By networks, by a claim on devices, or from the node."""
    annotations = (pod.template.get("metadata") or {}).get("annotations") or {}
    paths = [str((volume.get("hostPath") or {}).get("path", "")) for volume in pod.spec.get("volumes") or []]
    from_node = any(path.startswith("/dev/infiniband") for path in paths)
    return bool(annotations.keys() & set(NETWORKS) or pod.spec.get("resourceClaims") or from_node)


def variables(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """What looks like a secret, and what the catalogue says of every variable that somebody states, but for the names that the
    fabric decides.
    """
    works = {role.name for role in resolution.binding.roles if resolution.binding.runs_the_work(role)}
    for pod in pods:
        for pointer, container in containers_of(pod.found.spec):
            env: dict[str, str | None] = {}
            places: dict[str, Where] = {}
            for number, entry in enumerate(container.get("env") or []):
                if _STATED.match(source := pod.source(f"{pointer}/env/{number}")):
                    name = str(entry.get("name"))
                    env[name], places[name] = entry.get("value"), pod.where(context.locate, f"{pointer}/env/{number}")
                    # one that a later one of the same name replaces is committed too
                    instead = "" if _IN_WORDS.match(source) else _REFERENCE
                    yield from secret_findings({name: env[name]}, places.__getitem__, instead)
            reported = set[str]()
            if env and pod.role in works and pointer == "/containers/0":
                reported = {*owners_of(env, resolution), *(fact.name for fact in stated_facts(env, resolution))}
            yield from variable_findings({name: env[name] for name in env if name not in reported}, places.__getitem__)


_IN_WORDS = re.compile(r"(?:run:|run:/roles/[^/]+|cluster:/node_pools/[^/]+/pods|.*/containers/[0-9]+)/env/")
_STATED = re.compile(rf"{_IN_WORDS.pattern}|run:/overrides/|.*/containers/[0-9]+/container")
"""Sources of variables that somebody states: in the words of a run or of a profile, or as Kubernetes writes them."""
_REFERENCE = "write `valueFrom: {secretKeyRef: {name: NAME, key: KEY}}` in place of value"


def peer_list(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A variable in which the operator names every pod, and which becomes too long for any program to start."""
    binding, plan = resolution.binding, resolution.plan
    if binding.peer_list is None:
        return
    variable, entry = binding.peer_list
    hosts = [role.host.format(name=plan.name, index=index) for role in binding.roles for index in range(role.pods)]
    size = len(variable) + sum(len(entry.format(host=host, namespace=plan.namespace)) for host in hosts)
    if size > LONGEST_VARIABLE:
        title, most = resolution.plan.target_title, len(hosts) * LONGEST_VARIABLE // size
        message = f"{title} cannot carry {len(hosts):,} pods: {variable} would name them all in {size:,} characters"
        fix = f"lower topology.nodes to at most {most:,}, or shorten the run's name: {LONGEST_VARIABLE:,} characters fit"
        yield found("TW401", context.locate.run("/topology/nodes"), message, fix)


PLAN = (fabric, peer_list)
PODS = (rdma, variables)
