"""Validation of core kinds against the API's own schema, by ``kubernetes-validate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.locate import at

Manifest = dict[str, Any]


def schema_problems(manifests: Sequence[Manifest], version: str, templates: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """One sentence a problem, with the path; unknown fields are problems. Loads the schemas on first use.

    Of a kind that is not Kubernetes' own the pod templates are validated, at the places that ``templates`` names.
    """
    import kubernetes_validate

    for manifest in manifests:
        kind = str(manifest["kind"])
        try:
            yield from _problems(manifest, version, kind)
        except kubernetes_validate.SchemaNotFoundError:
            for pointer in (pointer for owner, pointer in templates.values() if owner == kind):
                pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": at(manifest, pointer)}
                yield from _problems(pod, version, f"{kind}{pointer.removesuffix('/template')}")


def _problems(manifest: Manifest, version: str, shown: str) -> Iterator[str]:
    import kubernetes_validate

    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{shown}/{'/'.join(str(part) for part in error.path)}: {error.message}"
