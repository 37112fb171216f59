"""Labels of objects that outlive an identity of their run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.manifest.labels import object_labels
from trainwright.manifest.monitoring.series import IDENTITY_LABEL
from trainwright.manifest.provenance import Why
from trainwright.plan import Resolution


def lasting_labels(resolution: Resolution, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of the run's objects without the one that names the identity, then those that the cluster's monitoring wants."""
    labels = object_labels(resolution.run, resolution.plan)
    labels.pop(IDENTITY_LABEL)
    return {**labels, **wanted}


def selected_by(labels: Mapping[str, str], field: str) -> dict[str, Why]:
    """Labels that the profile lists under ``monitoring.<field>``."""
    reason = "the cluster's Prometheus selects by it"
    return {key: Why(value, f"cluster:/monitoring/{field}/{escape(key)}", reason) for key, value in labels.items()}
