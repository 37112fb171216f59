"""A run's objects, as tests ask about them: which there are, what the API server says of them, how a reviewer reads them."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from tests.compiler.targets import CASES

from trainwright.compile import CompiledRun
from trainwright.explain import Explainer
from trainwright.findings.locate import Locator
from trainwright.manifest.provenance import split
from trainwright.manifest.template.volumes import payload_provenance
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.project.built import Output
from trainwright.validate import Catalogue, CheckedBy, load_catalogue, object_problems
from trainwright.validate.core import is_core
from trainwright.validate.core_schemas import known_version

Data = dict[str, Any]

UPSTREAM = os.environ.get("TRAINWRIGHT_CRDS")
"""A folder with the operators' CRDs; unset, custom kinds are checked by the operators' rules alone."""

EARLIER = frozenset({"/spec/podTemplateOverrides"})
"""Fields of releases before the one whose CRDs are pinned: Trainer 2.1 has this one, 2.2 and later have runtimePatches."""

needs_crds = pytest.mark.skipif(not UPSTREAM, reason="TRAINWRIGHT_CRDS names no folder of CRDs; `trainwright crds` fetches them")


# Which objects and parts of them there are.


def the(result: CompiledRun, kind: str) -> Data:
    """The one object of a kind."""
    (manifest,) = [manifest for manifest in result.manifests if manifest["kind"] == kind]
    return manifest


def top(result: CompiledRun) -> Data:
    """The object that carries the run."""
    (manifest,) = [manifest for manifest in result.manifests if _group_kind(manifest) == CASES[result.target.name].kind]
    return manifest


def _group_kind(manifest: Data) -> tuple[str, str]:
    return manifest["apiVersion"].rpartition("/")[0], manifest["kind"]


def container(result: CompiledRun, replicas: str, role: str) -> Data:
    """The main container of a role of an operator that lists its roles under ``spec``."""
    main: Data = top(result)["spec"][replicas][role]["template"]["spec"]["containers"][0]
    return main


def environment(main: Data) -> dict[str, Any]:
    """Of a container: name -> value, or what stands for it; each name once."""
    names = [entry["name"] for entry in main["env"]]
    assert len(names) == len(set(names))
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main["env"]}


def variables(node: Any) -> Iterator[str]:
    """Names of all environment variables below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("env"), list):
            yield from (entry["name"] for entry in node["env"])
        for value in node.values():
            yield from variables(value)
    elif isinstance(node, list):
        for item in node:
            yield from variables(item)


# What the API server and the operators' webhooks say of them.


@cache
def catalogue() -> Catalogue:
    return load_catalogue(Path(UPSTREAM)) if UPSTREAM else Catalogue()


def problems(manifests: Sequence[Data], kubernetes: str | None) -> list[str]:
    """What they have against objects; a kind without a schema is one problem more, where there are schemas of custom kinds."""
    said = []
    for manifest in manifests:
        found, by = object_problems(manifest, catalogue(), known_version(kubernetes))
        said += [f"{manifest['kind']}{problem.pointer}: {problem.message}" for problem in found if problem.pointer not in EARLIER]
        said += [] if by is CheckedBy.SCHEMA or UPSTREAM is None else [f"{manifest['kind']}: no schema"]
    return said


def problems_of(result: CompiledRun) -> list[str]:
    """Of all objects of a run, at the version of its cluster."""
    return problems(result.manifests, result.cluster.kubernetes)


def assert_accepted(manifest: Data, kubernetes: str) -> None:
    """An object has no problem, by a validator that is not ours too."""
    if is_core(manifest["apiVersion"]):
        assert kubernetes_validate.validate(copy.deepcopy(manifest), kubernetes, strict=True) is not None
    assert problems([manifest], kubernetes) == []


# How a reviewer reads them.


def written(manifests: Sequence[Data]) -> str:
    """Objects as YAML, keys in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # the field has no type of its own
    stream = io.StringIO()
    yaml.dump_all([dict(manifest) for manifest in manifests], stream)
    return stream.getvalue()


def yaml_of(result: CompiledRun) -> str:
    """The object that carries the run, without the hash, which moves with all that the run brings."""
    return written([top(result)]).replace(result.plan.name, "run").replace(result.identity, "hash")


def lines_without_answer(result: CompiledRun) -> list[str]:
    """Pointers of lines that no reason is known for."""
    output = Output(
        path="lab/training/runs/example.k8s.yaml",
        manifests=result.manifests,
        provenance=result.provenance,
        change="example.yaml",
        reasons=result.reasons,
        payloads=lambda: payload_provenance(result.resolution),
        locator=Locator(),
    )
    text = written(result.manifests)
    answers = list(Explainer(text, "example.k8s.yaml", output).all())
    assert len(answers) == len(text.splitlines()) > 60
    return [answer.pointer for answer in answers if answer.reason == "part of the object"]


def assert_beside_ranks(result: CompiledRun, containers: list[str]) -> None:
    """Pods with ranks have these containers beside the one that trains, no other pod has any, and all objects are accepted."""
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    target = TARGETS[result.plan.target]
    lowered = [split(tree)[0] for tree in target.lower(result.resolution)]
    ranks = {role.name for role in result.resolution.binding.roles if role.holds_ranks}
    for pod in run_pods(target, result.resolution, lowered):
        spec = pod.found.spec
        names = [one["name"] for one in (*spec.get("initContainers", []), *spec["containers"][1:])]
        assert names == (containers if pod.role in ranks else [])
