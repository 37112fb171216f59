"""Who may reach the pods of a run: its own ranks, and the scraper of its metrics."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.manifest.labels import object_labels
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Tree, Why
from trainwright.plan import Resolution


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


CONSTANTS: Mapping[str, str] = {
    "NetworkPolicy": "training ports have no passwords: whoever reaches a rendezvous can join or end the run",
    "NetworkPolicy/metadata": "named like the run's other objects",
    "NetworkPolicy/metadata/labels": "labels of the run's objects",
    "NetworkPolicy/spec/podSelector": "the pods of this run",
    "NetworkPolicy/spec/policyTypes": "what comes in; what goes out is left alone",
}

OWNED: Mapping[str, tuple[Owned, ...]] = {
    "NetworkPolicy": (Owned(r"/spec/podSelector.*", "the pods of the run", "remove it: the policy is this run's own"),)
}

MUTABLE: Mapping[str, tuple[str, ...]] = {"NetworkPolicy": ("/spec",)}
