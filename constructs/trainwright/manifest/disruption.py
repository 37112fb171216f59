"""How many pods of an elastic run may be evicted at a time."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.manifest.labels import object_labels
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Tree, Why
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


CONSTANTS: Mapping[str, str] = {
    "PodDisruptionBudget": "nodes are drained one after the other, so that the run shrinks and does not stop",
    "PodDisruptionBudget/metadata": "named like the run's other objects",
    "PodDisruptionBudget/metadata/labels": "labels of the run's objects",
    "PodDisruptionBudget/spec/selector": "the pods of this run",
    "PodDisruptionBudget/spec/unhealthyPodEvictionPolicy": "a pod that is not ready trains nothing, and blocks no drain",
}

MUTABLE: Mapping[str, tuple[str, ...]] = {"PodDisruptionBudget": ("/spec/minAvailable", "/spec/unhealthyPodEvictionPolicy")}

OWNED: Mapping[str, tuple[Owned, ...]] = {
    "PodDisruptionBudget": (
        Owned("/spec/selector.*", "which pods are the run's", "it follows from the run's name"),
        Owned("/spec/maxUnavailable", "how many nodes may go, which minAvailable says", "change topology.elastic.min_nodes"),
    )
}
