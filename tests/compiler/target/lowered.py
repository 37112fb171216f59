"""What must hold of the objects of a run on every target."""

from __future__ import annotations

import io
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from trainwright.compile import CompiledRun
from trainwright.explain import Explainer
from trainwright.manifest.config import payload_provenance
from trainwright.project import Output
from trainwright.validate.check import object_problems
from trainwright.validate.core import known_version
from trainwright.validate.crd import Catalogue, load_catalogue

Tree = dict[str, Any]

CRDS = os.environ.get("TRAINWRIGHT_CRDS")
needs_crds = pytest.mark.skipif(not CRDS, reason="TRAINWRIGHT_CRDS names no folder of CRDs; `make crds` fetches them")


@cache
def _catalogue() -> Catalogue:
    return load_catalogue(Path(CRDS or ""))


def problems_of(result: CompiledRun) -> list[str]:
    """What the API server and the operators would object to, object by object; a kind without a schema is one."""
    said = []
    version = known_version(result.cluster.kubernetes)
    for manifest in result.manifests:
        problems, known = object_problems(manifest, _catalogue(), version)
        said += [f"{manifest['kind']}{problem.pointer}: {problem.message}" for problem in problems]
        said += [] if known else [f"{manifest['kind']}: no schema"]
    return said


def unanswered(result: CompiledRun) -> list[str]:
    """Lines of the YAML of which `explain` has nothing to say."""
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump_all([dict(manifest) for manifest in result.manifests], stream)
    output = Output(
        "lab/training/runs/example.k8s.yaml", result.manifests, result.provenance, "example.yaml", result.constants,
        payload_provenance(result.resolution),
    )  # fmt: skip
    answers = list(Explainer(stream.getvalue(), "example.k8s.yaml", output).all())
    assert len(answers) == len(stream.getvalue().splitlines())
    return [answer.pointer for answer in answers if answer.reason == "part of the object"]


def top(result: CompiledRun) -> Tree:
    """The object that carries the run."""
    kinds = {kind for kind, _ in result.target.templates.values()}
    (manifest,) = (manifest for manifest in result.manifests if manifest["kind"] in kinds)
    return manifest


def yaml_of(result: CompiledRun) -> str:
    """The object that carries the run, as a reviewer reads it, without the hash, which moves with all that the run brings."""
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # the field has no type of its own
    yaml.dump(top(result), stream)
    return stream.getvalue().replace(result.plan.name, "run").replace(result.identity, "hash")


def container(result: CompiledRun, replicas: str, role: str) -> Tree:
    """The main container of a role of an operator that lists its roles under ``spec``."""
    main: Tree = top(result)["spec"][replicas][role]["template"]["spec"]["containers"][0]
    return main


def variables(main: Tree) -> dict[str, Any]:
    """Name -> value, or what stands for it; each name once."""
    names = [entry["name"] for entry in main["env"]]
    assert len(names) == len(set(names))
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main["env"]}
