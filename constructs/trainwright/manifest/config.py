"""The ConfigMap with the run's specification."""

from __future__ import annotations

import json
from typing import Any

from trainwright.manifest.labels import object_labels
from trainwright.manifest.ownership import Owned
from trainwright.manifest.why import Answer, Provenance, Why
from trainwright.plan import Resolution
from trainwright.plan.specification import SOURCES, render_for
from trainwright_trainer.contract.layout import SPEC_FILE


def specification_map(resolution: Resolution) -> dict[str, Any]:
    """Immutable, and named like the run's other objects: an edit is a new run."""
    run, plan, spec = resolution.run, resolution.plan, resolution.spec
    if spec is None:
        raise AssertionError("an opaque command has no specification")
    rendered, _ = render_for(spec, run.trainer_version or "")
    payload = json.dumps(rendered, indent=2, ensure_ascii=False) + "\n"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run, plan)},
        "immutable": True,
        "data": {SPEC_FILE: Why(payload, "trainwright", "the run's specification, the one file that the supervisor reads")},
    }


def payload_provenance() -> Provenance:
    """Where the values inside the specification come from, by pointer into it."""
    return {pointer: Answer(source, reason) for pointer, (source, reason) in SOURCES.items()}


CONSTANTS = {
    "ConfigMap": "what the supervisor reads; mounted into every pod",
    "ConfigMap/metadata": "named like the run's other objects",
    "ConfigMap/metadata/labels": "labels of the run's objects",
    "ConfigMap/immutable": "pods of one identity all read the same: a change is a new run, with a new name",
    "ConfigMap/data": "the specification as one JSON file",
}

OWNED = (Owned(r"/immutable|/data.*|/binaryData.*", "the specification of the run", "change the run's own fields"),)
