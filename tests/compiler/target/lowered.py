"""What must hold of the objects of a run on every target."""

from __future__ import annotations

import io
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.compiler.taken import UPSTREAM, catalogue

from trainwright.compile import CompiledRun
from trainwright.manifest.kinds import GroupKind
from trainwright.validate.check import object_problems
from trainwright.validate.core_schemas import known_version

Tree = dict[str, Any]

needs_crds = pytest.mark.skipif(not UPSTREAM, reason="TRAINWRIGHT_CRDS names no folder of CRDs; `make crds` fetches them")


def problems_of(result: CompiledRun) -> list[str]:
    """What the API server and the operators would object to, object by object; a kind without a schema is one."""
    said = []
    version = known_version(result.cluster.kubernetes)
    for manifest in result.manifests:
        problems, known = object_problems(manifest, catalogue(), version)
        said += [f"{manifest['kind']}{problem.pointer}: {problem.message}" for problem in problems]
        said += [] if known else [f"{manifest['kind']}: no schema"]
    return said


def top(result: CompiledRun) -> Tree:
    """The object that carries the run."""
    (manifest,) = (manifest for manifest in result.manifests if GroupKind.of(manifest) == result.target.kind)
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
