"""Monitoring of a run: who scrapes it, when somebody is told, and what there is to look at.

The objects are named like the run, without a hash: they may change in place, and serve every identity of it. So they are made
outside of the identity, from a resolution under any name.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.manifest.monitoring import objects as pod_monitor
from trainwright.manifest.monitoring import objects as rules
from trainwright.manifest.monitoring.series import serving_pods
from trainwright.manifest.provenance import Owned, Tree
from trainwright.plan import Resolution


def monitoring_objects(resolution: Resolution) -> list[Tree]:
    """PodMonitor, PrometheusRule and dashboard; empty where the cluster has no monitoring, or no pod serves metrics."""
    monitoring = resolution.cluster.monitoring
    if monitoring is None or not serving_pods(resolution):
        return []
    objects = [pod_monitor.pod_monitor(resolution, monitoring), rules.prometheus_rule(resolution, monitoring)]
    if monitoring.dashboard:
        from trainwright.manifest.monitoring.dashboard import dashboard_map  # with all its panels, for few clusters

        objects.append(dashboard_map(resolution, monitoring, monitoring.dashboard))
    return objects


CONSTANTS: Mapping[str, str] = {**pod_monitor.POD_MONITOR_CONSTANTS, **rules.RULE_CONSTANTS}
"""``Kind/path`` -> why the constants below it are as they are. The dashboard's lines all carry their own reason: targets have
ConfigMaps too, with other ones."""

OWNED: Mapping[str, tuple[Owned, ...]] = {"PodMonitor": pod_monitor.POD_MONITOR_OWNED, "PrometheusRule": rules.RULE_OWNED}
"""Kind -> what no override may touch. Of a ConfigMap every target owns the data already."""

__all__ = ["CONSTANTS", "OWNED", "monitoring_objects", "serving_pods"]
