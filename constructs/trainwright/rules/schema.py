"""Validation of core kinds against the API's own schema, as ``trainwright validate`` does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.findings.locate import at

Manifest = dict[str, Any]


def schema_problems(manifests: Sequence[Manifest], version: str, templates: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """One sentence a problem, with the path; unknown fields are problems. Loads the schemas on first use.

    Of a kind that is not Kubernetes' own the metadata is validated, and pod templates at the places that ``templates`` names.
    """
    from trainwright.validate.core import core_problems, is_core
    from trainwright.validate.core_schemas import known_version

    known = known_version(version)
    for manifest in manifests:
        kind = str(manifest["kind"])
        if is_core(str(manifest["apiVersion"])):
            yield from (f"{kind}{problem.pointer}: {problem.message}" for problem in core_problems(manifest, known))
            continue
        stand_in = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}
        yield from (f"{kind}{problem.pointer}: {problem.message}" for problem in core_problems(stand_in, known))
        there = (pointer for owner, pointer in templates.values() if owner == kind and at(manifest, pointer) is not None)
        for pointer in there:
            pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": at(manifest, pointer)}
            for problem in core_problems(pod, known):
                yield f"{kind}{pointer}{problem.pointer.removeprefix('/template')}: {problem.message}"
