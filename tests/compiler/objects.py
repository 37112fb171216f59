"""Questions that every target's objects must answer, however they look."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from tests.compiler.example import CLUSTER
from tests.compiler.taken import UPSTREAM, catalogue

from trainwright.compile import CompiledRun
from trainwright.explain import Explainer
from trainwright.findings.locate import Locator
from trainwright.manifest.volumes import payload_provenance
from trainwright.project import Output
from trainwright.validate import Problem, object_problems
from trainwright.validate.core_schemas import known_version

Data = dict[str, Any]

def the(result: CompiledRun, kind: str) -> Data:
    """The one object of a kind."""
    (manifest,) = [manifest for manifest in result.manifests if manifest["kind"] == kind]
    return manifest


def problems(manifest: Data, kubernetes: str = CLUSTER["kubernetes"]) -> list[Problem]:
    """What the API server, at a cluster's version, or a webhook of the operator has against an object."""
    assert UPSTREAM, "guarded by the callers"
    found, _ = object_problems(manifest, catalogue(), known_version(kubernetes))
    return found


def written(result: CompiledRun, *kinds: str) -> str:
    """The objects as YAML, keys in their order; of some kinds only where those are named."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump_all([dict(manifest) for manifest in result.manifests if not kinds or manifest["kind"] in kinds], stream)
    return stream.getvalue()


def lines_without_answer(result: CompiledRun) -> list[str]:
    """Pointers of lines that no reason is known for."""
    output = Output(
        path="lab/training/runs/example.k8s.yaml",
        manifests=result.manifests,
        provenance=result.provenance,
        change="example.yaml",
        reasons=result.reasons,
        payloads=payload_provenance(result.resolution),
        locator=Locator(),
    )
    text = written(result)
    answers = list(Explainer(text, "example.k8s.yaml", output).all())
    assert len(answers) == len(text.splitlines()) > 60
    return [answer.pointer for answer in answers if answer.reason == "part of the object"]


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
