"""Writes the names of the fields of custom resources, from which `trainwright validate` finds unknown ones where it has no CRDs.

    python tools/field_names.py build/crds > constructs/trainwright/validate/field_names.json

Only names and nesting are kept of each served version that a file of ``pins.toml`` defines. Operators copy the pod template of
Kubernetes into their CRDs; each set of fields is written once, and others refer to it by its number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainwright.manifest.kinds import GroupKind
from trainwright.validate.admission import TYPE_META
from trainwright.validate.crd import Schema, load_catalogue
from trainwright.validate.fetch import PINS, read_pins

RUNTIME = ("/spec/mlPolicy/torch/elasticPolicy", "/spec/mlPolicy/torch/numProcPerNode")
EARLIER: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("trainer.kubeflow.org", "TrainJob"): ("/spec/annotations", "/spec/labels", "/spec/podTemplateOverrides"),
    GroupKind("trainer.kubeflow.org", "TrainingRuntime"): RUNTIME,
    GroupKind("trainer.kubeflow.org", "ClusterTrainingRuntime"): RUNTIME,
    GroupKind("ray.io", "RayJob"): ("/spec/deletionPolicy",),
}
"""Fields that earlier releases of the operators had, of those that a profile may name: Trainer 2.1, KubeRay 1.3 and 1.4. Below
them any name goes."""

OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}


class Table:
    """Sets of fields, each once: ``name`` has nothing below it, below ``name=3`` are the fields number 3, ``[]=3`` are items,
    ``*=3`` is what any other name holds; ``?`` allows names that are not known, ``&`` is an object with a kind of its own.
    """

    def __init__(self) -> None:
        self.sets: dict[str, int] = {}

    def number(self, schema: Schema, pointer: str = "", earlier: tuple[str, ...] = ()) -> int | None:
        """The number of a schema's fields; None where it has none."""
        fields = " ".join(self._fields(schema, pointer, earlier))
        return self.sets.setdefault(fields, len(self.sets)) if fields else None

    def _fields(self, schema: Schema, pointer: str, earlier: tuple[str, ...]) -> Iterator[str]:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            yield "?"
        if schema.get("x-kubernetes-embedded-resource"):
            yield "&"
        extra, items = schema.get("additionalProperties"), schema.get("items")
        if extra not in (None, False):
            yield self._field("*", extra if isinstance(extra, Mapping) else {}, pointer, earlier)
        if isinstance(items, Mapping):
            yield self._field("[]", items, pointer, earlier)
        below = {f"{pointer}/{name}": under for name, under in schema.get("properties", {}).items()}
        below |= dict.fromkeys((place for place in earlier if place.rpartition("/")[0] == pointer), OPEN)
        if "/status" in below:  # the operator's, which nobody writes
            below["/status"] = OPEN
        for place, under in sorted(below.items()):
            if place.removeprefix("/") not in TYPE_META:
                yield self._field(place.rpartition("/")[2], under, place, earlier)

    def _field(self, name: str, schema: Schema, pointer: str, earlier: tuple[str, ...]) -> str:
        number = self.number(schema, pointer, earlier)
        return name if number is None else f"{name}={number}"


def main(crds: Path) -> str:
    """The table of the CRDs in a folder, as JSON."""
    releases = {str(crds / pin.file): pin.release for pin in read_pins(PINS)}
    table, kinds = Table(), {release: dict[str, int | None]() for release in sorted(set(releases.values()))}
    for key, crd in sorted(load_catalogue(crds).crds.items()):
        for version in crd.versions.values():
            if version.served and crd.file in releases:
                number = table.number(version.schema, "", EARLIER.get(key, ()))
                kinds[releases[crd.file]][f"{key.group}/{version.name} {key.kind}"] = number
    return json.dumps({"kinds": kinds, "fields": list(table.sets)}, indent=0) + "\n"


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1])))
