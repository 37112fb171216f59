"""The objects beside a run's own that are the same on every target: who may reach its pods, how they start, what watches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trainwright.manifest import monitoring, scheduling
from trainwright.manifest.data import fetching
from trainwright.manifest.labels import object_labels
from trainwright.manifest.provenance import Owned, Tree, Why
from trainwright.plan import Resolution


def disruption_budget(resolution: Resolution) -> list[Tree]:
    """For an elastic run that can spare a node of those it starts with.

    A run of fixed size stops with its first pod whatever a budget says; one that allows no eviction would block the draining of
    nodes for as long as the run lasts, where a save on SIGTERM and a restart cost minutes.
    """
    run, plan, elastic = resolution.run, resolution.plan, resolution.needs.elastic
    if elastic is None or elastic.minimum >= resolution.needs.nodes:
        return []
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run, plan)},
            "spec": {
                "minAvailable": Why(elastic.minimum, "run:/topology/elastic/min_nodes", "with fewer nodes the run waits"),
                "selector": {"matchLabels": {"app.kubernetes.io/instance": plan.name}},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }
    ]


PDB_CONSTANTS: Mapping[str, str] = {
    "PodDisruptionBudget": "nodes are drained one after the other, so that the run shrinks and does not stop",
    "PodDisruptionBudget/metadata": "named like the run's other objects",
    "PodDisruptionBudget/metadata/labels": "labels of the run's objects",
    "PodDisruptionBudget/spec/selector": "the pods of this run",
    "PodDisruptionBudget/spec/unhealthyPodEvictionPolicy": "a pod that is not ready trains nothing, and blocks no drain",
}

PDB_MUTABLE: Mapping[str, tuple[str, ...]] = {"PodDisruptionBudget": ("/spec/minAvailable", "/spec/unhealthyPodEvictionPolicy")}

PDB_OWNED: Mapping[str, tuple[Owned, ...]] = {
    "PodDisruptionBudget": (
        Owned("/spec/selector.*", "which pods are the run's", "it follows from the run's name"),
        Owned("/spec/maxUnavailable", "how many nodes may go, which minAvailable says", "change topology.elastic.min_nodes"),
    )
}


def fences(resolution: Resolution) -> bool:
    """Whether the run can be fenced off: not on the node's network, and not where the operator's own pods talk to it."""
    return (
        resolution.cluster.network_policy
        and not resolution.run.host_network
        and not resolution.binding.replaces_command
    )


def network_policy(resolution: Resolution) -> list[Tree]:
    """Ingress only: pods reach storage, name servers and whatever else they need as before."""
    run, plan = resolution.run, resolution.plan
    if not fences(resolution):
        return []
    peers: Tree = {"from": [{"podSelector": _pods(resolution)}]}
    reason = "ranks of this run, on any port: NCCL and gloo choose theirs"
    ingress: list[Tree | Why] = [Why(peers, "cluster:/network_policy", reason)]
    ingress += _scraper(resolution)
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run, plan)},
            "spec": {"podSelector": _pods(resolution), "policyTypes": ["Ingress"], "ingress": ingress},
        }
    ]


def _pods(resolution: Resolution) -> Tree:
    return {"matchLabels": {"app.kubernetes.io/instance": resolution.plan.name}}


def _scraper(resolution: Resolution) -> list[Tree | Why]:
    monitoring = resolution.cluster.monitoring
    supervised = any(process.supervised for process in resolution.processes.values())
    if monitoring is None or not supervised:
        return []
    place = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": monitoring.namespace}}}
    port = {"port": "http", "protocol": "TCP"}
    return [Why({"from": [place], "ports": [port]}, "cluster:/monitoring/namespace", "where Prometheus scrapes the metrics from")]


POLICY_CONSTANTS: Mapping[str, str] = {
    "NetworkPolicy": "training ports have no passwords: whoever reaches a rendezvous can join or end the run",
    "NetworkPolicy/metadata": "named like the run's other objects",
    "NetworkPolicy/metadata/labels": "labels of the run's objects",
    "NetworkPolicy/spec/podSelector": "the pods of this run",
    "NetworkPolicy/spec/policyTypes": "what comes in; what goes out is left alone",
}

POLICY_OWNED: Mapping[str, tuple[Owned, ...]] = {
    "NetworkPolicy": (Owned(r"/spec/podSelector.*", "the pods of the run", "remove it: the policy is this run's own"),)
}

POLICY_MUTABLE: Mapping[str, tuple[str, ...]] = {"NetworkPolicy": ("/spec",)}


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of surroundings. An object called like the run, without a hash, may change in place and outlives identities."""

    objects: Callable[[Resolution], list[Tree]]
    """None where the run needs them not."""
    constants: Mapping[str, str]
    """``Kind/path`` -> why the constants below it are as they are."""
    owned: Mapping[str, tuple[Owned, ...]] = field(default_factory=dict)
    """Kind -> what no override may touch."""
    mutable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind -> pointers that may change in place and so stay out of the run's identity."""


PARTS: tuple[Part, ...] = (
    Part(scheduling.pod_group, scheduling.CONSTANTS, scheduling.OWNED),
    Part(disruption_budget, PDB_CONSTANTS, PDB_OWNED, PDB_MUTABLE),
    Part(network_policy, POLICY_CONSTANTS, POLICY_OWNED, POLICY_MUTABLE),
    Part(monitoring.monitoring_objects, monitoring.CONSTANTS, monitoring.OWNED),
    Part(fetching.fetch_jobs, {}),  # of a kind that targets have reasons for; its own, in data.constants, are for the foundation
)
"""In the order of the YAML, after the target's own objects."""


def surroundings(resolution: Resolution) -> list[Tree]:
    """All objects around the run."""
    return [tree for part in PARTS for tree in part.objects(resolution)]


def constants(own: Mapping[str, str]) -> dict[str, str]:
    """Those of a target, and of everything around it."""
    merged: dict[str, str] = {}
    for part in PARTS:
        merged |= part.constants
    return merged | dict(own)


def owned(own: Mapping[str, tuple[Owned, ...]], kind: str) -> tuple[Owned, ...]:
    """What no override of an object may touch, by its target or by what is around."""
    return (*own.get(kind, ()), *(entry for part in PARTS for entry in part.owned.get(kind, ())))


def mutable(own: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """What may change in place, of a target's kinds and of those around it."""
    merged: dict[str, tuple[str, ...]] = {}
    for part in PARTS:
        merged |= part.mutable
    return merged | dict(own)
