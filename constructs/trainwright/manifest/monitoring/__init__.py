"""Monitoring of a namespace: who scrapes its runs, when somebody is told, and what there is to look at.

The objects are of the namespace and not of a run: what differs between runs, their pods serve. So an edit of a run changes none
of them, but for its team.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.cluster import Cluster
from trainwright.manifest.kinds import ObjectKind
from trainwright.manifest.monitoring.objects import POD_MONITOR, PROMETHEUS_RULE, pod_monitor, prometheus_rule, with_runs_of
from trainwright.manifest.monitoring.series import WatchedRun, serves_metrics, watched
from trainwright.manifest.provenance import Tree


def monitoring_objects(cluster: Cluster, namespace: str, runs: Sequence[WatchedRun]) -> list[Tree]:
    """PodMonitor, PrometheusRule and dashboard; empty where the cluster has no monitoring, or no run is watched."""
    monitoring = cluster.monitoring
    if monitoring is None or not runs:
        return []
    objects: list[Tree] = [pod_monitor(namespace, monitoring), prometheus_rule(namespace, monitoring, runs)]
    if monitoring.dashboard:
        from trainwright.manifest.monitoring.dashboard import dashboard_map  # with all its panels, for few clusters

        objects.append(dashboard_map(namespace, monitoring, monitoring.dashboard))
    return objects


KINDS: tuple[ObjectKind, ...] = (POD_MONITOR, PROMETHEUS_RULE)
"""Not the dashboard's ConfigMap: its lines all carry their own reason, and the data of every ConfigMap is the plan's already."""

__all__ = ["KINDS", "WatchedRun", "monitoring_objects", "serves_metrics", "watched", "with_runs_of"]
