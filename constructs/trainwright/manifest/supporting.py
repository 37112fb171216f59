"""The objects besides the target's, alike on all targets: who may reach a run's pods, how they start, what monitors them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trainwright.manifest import gang
from trainwright.manifest.data import fetching
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import IDENTITY_LABEL, RUN_LABEL, namespace_of, object_labels
from trainwright.manifest.monitoring import serves_metrics
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.volumes import CONFIG_MAP
from trainwright.plan import Resolution


def disruption_budget(resolution: Resolution) -> list[Tree]:
    """A PodDisruptionBudget for an elastic run that can spare a node of those it starts with.

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
            "metadata": {"name": plan.name, "namespace": namespace_of(plan), "labels": object_labels(run)},
            "spec": {
                "minAvailable": Why(elastic.minimum, "run:/topology/elastic/min_nodes", "with fewer nodes the run waits"),
                "selector": {"matchLabels": {IDENTITY_LABEL: plan.name}},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }
    ]


PDB = ObjectKind(
    GroupKind("policy", "PodDisruptionBudget"),
    reasons={
        "": "nodes are drained one after the other, so that the run shrinks and does not stop",
        "/metadata": "named like the run's other objects",
        "/metadata/labels": "labels of the run's objects",
        "/spec/selector": "the pods of this run",
        "/spec/unhealthyPodEvictionPolicy": "a pod that is not ready trains nothing, and blocks no drain",
    },
    owned=(
        Owned("/spec/selector.*", "which pods are the run's", "it follows from the run's name"),
        Owned("/spec/maxUnavailable", "how many nodes may go, which minAvailable says", "change topology.elastic.min_nodes"),
    ),
    mutable=("/spec/minAvailable", "/spec/unhealthyPodEvictionPolicy"),
)


def fences(resolution: Resolution) -> bool:
    """Whether the run gets a NetworkPolicy: not on the node's network, and not if the operator's own pods talk to it."""
    return (
        resolution.cluster.network_policy
        and not resolution.run.host_network
        and not resolution.binding.replaces_command
    )


def network_policy(resolution: Resolution) -> list[Tree]:
    """Restricts ingress only: pods reach storage, name servers and whatever else they need as before."""
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
            "metadata": {
                "name": Why(run.run, "run:/run", "one for all identities of the run"),
                "namespace": namespace_of(plan),
                "labels": object_labels(run),
            },
            "spec": {"podSelector": _pods(resolution), "policyTypes": ["Ingress"], "ingress": ingress},
        }
    ]


def _pods(resolution: Resolution) -> Tree:
    """The run's pods of every identity, as its monitor selects them: the policy stays while identities come and go."""
    return {"matchLabels": {RUN_LABEL: resolution.run.run}}


def _scraper(resolution: Resolution) -> list[Tree | Why]:
    monitoring = resolution.cluster.monitoring
    if monitoring is None or not serves_metrics(resolution):
        return []
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": monitoring.namespace}}}
    port = {"port": "http", "protocol": "TCP"}
    peer: Tree = {"from": [prometheus], "ports": [port]}
    return [Why(peer, "cluster:/monitoring/namespace", "where Prometheus scrapes the metrics from")]


NETWORK_POLICY = ObjectKind(
    GroupKind("networking.k8s.io", "NetworkPolicy"),
    reasons={
        "": "training ports have no passwords: anyone who reaches a rendezvous can join or end the run",
        "/metadata": "called after the run: it outlives identities",
        "/metadata/labels": "labels of the run's objects",
        "/spec/podSelector": "the pods of this run",
        "/spec/policyTypes": "what comes in; what goes out is left alone",
    },
    owned=(Owned(r"/spec/podSelector.*", "the pods of the run", "remove it: the policy is this run's own"),),
    mutable=("/spec",),
)


class Supporting(NamedTuple):
    """One sort of supporting objects. An object that is named like the run, without a hash, may change in place and outlives
    identities.
    """

    objects: Callable[[Resolution], list[Tree]]
    """Empty if the run needs none."""
    kinds: tuple[ObjectKind, ...]


SUPPORTING: tuple[Supporting, ...] = (
    Supporting(gang.pod_group, tuple(one.pod_group for one in gang.SCHEDULERS.values())),
    Supporting(disruption_budget, (PDB,)),
    Supporting(network_policy, (NETWORK_POLICY,)),
    Supporting(fetching.fetch_jobs, ()),  # they live in the foundation, with the reasons of fetching.FETCH_JOB
)
"""In the order of the YAML, after the target's own objects."""

KINDS: tuple[ObjectKind, ...] = (CONFIG_MAP, *(kind for sort in SUPPORTING for kind in sort.kinds))
"""Kinds of everything besides a target's own objects."""


def supporting_objects(resolution: Resolution) -> list[Tree]:
    """All objects that come after the target's own."""
    return [tree for sort in SUPPORTING for tree in sort.objects(resolution)]
