"""The ConfigMap with the files that a run brings into its pods."""

from __future__ import annotations

from typing import Any

from trainwright.manifest.labels import object_labels
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Answer, Provenance, Why
from trainwright.plan import Resolution


def configuration(resolution: Resolution) -> list[dict[str, Any]]:
    """Immutable, and named like the run's other objects: an edit is a new run. None where the run brings no file."""
    run, plan = resolution.run, resolution.plan
    if not resolution.payloads:
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run, plan)},
            "immutable": True,
            "data": {payload.key: Why(payload.text, payload.source, payload.reason) for payload in resolution.payloads},
        }
    ]


def payload_provenance(resolution: Resolution) -> dict[str, Provenance]:
    """Key of the ConfigMap -> where the values inside that file come from, by pointer into it."""
    return {
        payload.key: {pointer: Answer(source, reason) for pointer, (source, reason) in payload.answers.items()}
        for payload in resolution.payloads
        if payload.answers
    }


CONSTANTS = {
    "ConfigMap": "the files that the pods read; mounted into every pod",
    "ConfigMap/metadata": "named like the run's other objects",
    "ConfigMap/metadata/labels": "labels of the run's objects",
    "ConfigMap/immutable": "pods of one identity all read the same: a change is a new run, with a new name",
    "ConfigMap/data": "each file under its own key",
}

OWNED = (Owned(r"/immutable|/data.*|/binaryData.*", "the specification of the run", "change the run's own fields"),)
