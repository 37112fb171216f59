"""PodMonitor: who Prometheus scrapes."""

from __future__ import annotations

from typing import Any

from trainwright.cluster.monitoring import Monitoring
from trainwright.manifest.monitoring.labels import lasting_labels, selected_by
from trainwright.manifest.monitoring.series import POD_LABELS, RUN_LABEL
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Why
from trainwright.plan import Resolution


def pod_monitor(resolution: Resolution, monitoring: Monitoring) -> dict[str, Any]:
    """Every pod of every identity of the run, by the label that our own pod template sets.

    A ServiceMonitor would select Services by labels, and which those have is up to each operator.
    """
    run = resolution.run
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": Why(run.run, "run:/run", "one for all identities of the run"),
            "namespace": run.namespace,
            "labels": lasting_labels(resolution, selected_by(monitoring.pod_monitor_labels, "pod_monitor_labels")),
        },
        "spec": {
            "selector": {"matchLabels": {RUN_LABEL: Why(run.run, "run:/run", "the run's pods, whatever their hash")}},
            "podTargetLabels": list(POD_LABELS),
            "podMetricsEndpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": Why(monitoring.interval.canonical, "cluster:/monitoring/interval", "as the cluster profile says"),
                },
            ],
        },
    }


CONSTANTS = {
    "PodMonitor": "tells Prometheus to scrape the run's pods",
    "PodMonitor/metadata": "named like the run, without a hash: it may change in place, and outlives an identity",
    "PodMonitor/metadata/labels": "labels of the run, and those that the Prometheus selects by",
    "PodMonitor/spec/selector": "the pods themselves, by a label of ours: operators label their Services each in their own way",
    "PodMonitor/spec/podTargetLabels": "every series says which run and which identity it is of",
    "PodMonitor/spec/podMetricsEndpoints": "the supervisor's port; a pod without a port of this name is left out",
}
"""``Kind/path`` -> why the constants below it are as they are."""

OWNED = (
    Owned(r"/spec/(selector|namespaceSelector|podTargetLabels|podMetricsEndpoints|jobLabel).*", "who is scraped, and how",
          "change monitoring in the cluster profile"),
)
