"""Monitoring of a run: who scrapes it, when somebody is told, and what there is to look at.

The objects are named like the run, without a hash: they may change in place, and serve every identity of it. So they are made
outside the identity, from a resolution under any name.
"""

from __future__ import annotations

from trainwright.manifest.kinds import ObjectKind
from trainwright.manifest.monitoring.objects import POD_MONITOR, PROMETHEUS_RULE, pod_monitor, prometheus_rule
from trainwright.manifest.monitoring.series import serving_pods
from trainwright.manifest.provenance import Tree
from trainwright.plan import Resolution


def monitoring_objects(resolution: Resolution) -> list[Tree]:
    """PodMonitor, PrometheusRule and dashboard; empty where the cluster has no monitoring, or no pod serves metrics."""
    monitoring = resolution.cluster.monitoring
    if monitoring is None or not serving_pods(resolution):
        return []
    objects = [pod_monitor(resolution, monitoring), prometheus_rule(resolution, monitoring)]
    if monitoring.dashboard:
        from trainwright.manifest.monitoring.dashboard import dashboard_map  # with all its panels, for few clusters

        objects.append(dashboard_map(resolution, monitoring, monitoring.dashboard))
    return objects


KINDS: tuple[ObjectKind, ...] = (POD_MONITOR, PROMETHEUS_RULE)
"""Not the dashboard's ConfigMap: its lines all carry their own reason, and the data of every ConfigMap is the plan's already."""

__all__ = ["KINDS", "monitoring_objects", "serving_pods"]
