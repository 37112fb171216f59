"""How a cluster watches its runs: what the objects that the compiler makes for Prometheus and Grafana must look like."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from trainwright.model import DnsLabel, LabelValue, Model, QualifiedName
from trainwright.units import Duration

LONGEST_INTERVAL = Duration(120)
"""A sample counts for five minutes (Prometheus, --query.lookback-delta), so one lost scrape must still leave another."""


class Dashboard(Model):
    """Grafana, with the sidecar that loads dashboards from ConfigMaps."""

    label: QualifiedName = "grafana_dashboard"
    """Label key by which the sidecar finds them."""
    value: LabelValue = "1"
    """Its value."""
    namespace: DnsLabel | None = None
    """Where the sidecar looks; null: in every namespace, so that a dashboard stays beside its run."""


class Monitoring(Model):
    """What is there to watch runs with."""

    kind: Literal["prometheus-operator"]
    """Prometheus Operator: PodMonitor and PrometheusRule."""
    namespace: DnsLabel = "monitoring"
    """Where Prometheus runs: who a run's NetworkPolicy lets in."""
    interval: Duration = Field(default_factory=lambda: Duration(30))
    """Time between two scrapes of a pod."""
    pod_monitor_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels that the Prometheus selects PodMonitors by (podMonitorSelector)."""
    rule_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels that the Prometheus selects rules by (ruleSelector)."""
    watches: tuple[DnsLabel, ...] | None = None
    """Namespaces where the Prometheus looks for both (podMonitorNamespaceSelector, ruleNamespaceSelector); null: all of them."""
    dashboard: Dashboard | None = None
    """Grafana, where it loads dashboards from ConfigMaps."""
    dcgm: bool = False
    """Whether NVIDIA's dcgm-exporter is scraped, with the pods that use the GPUs in its labels."""
    runbooks: Annotated[str, Field(pattern=r"^https?://[^\s#]+$", max_length=512)] | None = None
    """Where people read docs/monitoring.md: alerts link to it (runbook_url); null: they have no link."""

    @field_validator("interval")
    @classmethod
    def _seen_before_it_is_forgotten(cls, interval: Duration) -> Duration:
        if interval > LONGEST_INTERVAL:
            raise ValueError(f"write at most {LONGEST_INTERVAL}: a sample counts for 5 min, and a scrape can be lost")
        return interval
