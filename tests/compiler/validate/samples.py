"""Valid objects of every kind that runs are compiled to, the CRDs to validate them against, and their schemas."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.findings.locate import escape, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.validate import Catalogue, Problem, load_catalogue, object_problems
from trainwright.validate.admission import field_schema
from trainwright.validate.core_schemas import known_version
from trainwright.validate.crd import Schema
from trainwright.validate.manifests import read_manifests

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = Path(__file__).parent / "samples"
PROJECT = ROOT / "tests" / "compiler" / "findings" / "project"
KUBERNETES = known_version(None)

UPSTREAM = os.environ.get("TRAINWRIGHT_CRDS")
"""A folder with the CRDs that `trainwright crds` fetches; unset, the tests of custom kinds do not exist, and one test says so."""

Data = dict[str, Any]


@cache
def upstream() -> Catalogue:
    assert UPSTREAM, "guarded by the callers"
    return load_catalogue(Path(UPSTREAM))


@cache
def _objects() -> dict[str, Data]:
    found: dict[str, Data] = {}
    for path in sorted(SAMPLES.glob("*.yaml")):
        manifests, findings = read_manifests(path)
        assert not findings
        found |= {f"{it.data['kind']} {it.data['apiVersion']}": it.data for it in manifests}
    return found


def sample(name: str) -> Data:
    """A fresh copy of a sample by kind, or by kind and apiVersion where two groups have the kind."""
    matches = [data for key, data in _objects().items() if key == name or key.partition(" ")[0] == name]
    assert len(matches) == 1, f"{len(matches)} samples are called {name}"
    return copy.deepcopy(matches[0])


def names(custom: bool) -> list[str]:
    """The samples of custom kinds, or of Kubernetes' own."""
    own = {"ConfigMap v1", "Service v1", "Job batch/v1", "CronJob batch/v1", "Pod v1", "PersistentVolumeClaim v1"}
    return [name for name in _objects() if (name in own) != custom]


def problems(manifest: Data, catalogue: Catalogue | None = None) -> list[Problem]:
    found, _ = object_problems(manifest, catalogue if catalogue is not None else upstream(), KUBERNETES)
    return found


def schema_of(manifest: Data) -> Schema:
    version = manifest["apiVersion"].rpartition("/")[2]
    return upstream().crds[GroupKind.of(manifest)].versions[version].schema


def schema_at(schema: Schema | None, pointer: str) -> Schema | None:
    for token in tokens(pointer):
        if schema is None:
            return None
        schema = schema.get("items") if token.isdigit() and "items" in schema else field_schema(schema, token)
    return schema


def pointers(node: Any, pointer: str = "") -> Iterator[str]:
    """Every place in an object, the object itself first."""
    yield pointer
    if isinstance(node, dict):
        for key, value in node.items():
            yield from pointers(value, f"{pointer}/{escape(key)}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from pointers(value, f"{pointer}/{index}")


def put(node: Any, pointer: str, value: Any) -> None:
    """Write a value at a place whose parent is there."""
    owner, last = _owner(node, pointer)
    owner[int(last) if isinstance(owner, list) else last] = value


def drop(node: Any, pointer: str) -> None:
    owner, last = _owner(node, pointer)
    del owner[int(last) if isinstance(owner, list) else last]


def _owner(node: Any, pointer: str) -> tuple[Any, str]:
    *above, last = tokens(pointer)
    for token in above:
        node = node[int(token)] if isinstance(node, list) else node[token]
    return node, last
