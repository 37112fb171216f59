"""An object's identity and metadata: apiVersion, kind, name, labels (apimachinery, pkg/api/validation/objectmeta.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.validate.names import (
    annotation_problems,
    label_problems,
    not_a_label,
    not_a_service_label,
    not_a_subdomain,
)
from trainwright.validate.problem import Problem

_NAME_RULES: Mapping[tuple[str, str], Callable[[str], str]] = {
    ("", "Namespace"): not_a_label,
    ("", "Service"): not_a_service_label,
    **{
        ("rbac.authorization.k8s.io", kind): lambda name: "cannot be a part of a path" if re.search(r"[/%]|^\.\.?$", name) else ""
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
}
"""Group and kind -> why a name is not allowed, where that is another rule than that of DNS subdomains."""


def identity_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """What keeps a mapping from being an object that can be applied; nothing else is worth saying about it then."""
    for key in ("apiVersion", "kind"):
        value = manifest.get(key)
        if not isinstance(value, str) or not value:
            yield Problem("TW709", f"/{key}", f"the object has no `{key}`", f"add `{key}:`; every object of Kubernetes has one")
    api_version = manifest.get("apiVersion")
    if isinstance(api_version, str) and api_version and not re.fullmatch(r"([-a-z0-9.]+/)?[a-z0-9]+", api_version):
        yield Problem(
            "TW709", "/apiVersion", f"`{api_version[:60]}` is no API version", "write `v1`, or `group/version` such as `batch/v1`"
        )
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        generated = (
            " (`generateName` cannot be applied twice to the same object)" if at(manifest, "/metadata/generateName") else ""
        )
        yield Problem("TW709", "/metadata/name", f"the object has no name{generated}", "add `metadata: {name: …}`")


def metadata_problems(manifest: Mapping[str, Any], namespaced: bool | None = None) -> Iterator[Problem]:
    """Names and labels that the API server refuses. ``namespaced`` is None where the kind's scope is not known."""
    group, name = str(manifest["apiVersion"]).rpartition("/")[0], manifest["metadata"]["name"]
    rule = _NAME_RULES.get((group, str(manifest["kind"])), not_a_subdomain)
    if reason := rule(name):
        yield Problem("TW709", "/metadata/name", f"the name {name[:80]} {reason}", "choose another name")
    namespace = at(manifest, "/metadata/namespace")
    if isinstance(namespace, str) and namespace:
        if namespaced is False:
            fix = "remove the namespace"
            yield Problem("TW709", "/metadata/namespace", f"objects of kind {manifest['kind']} have no namespace", fix)
        elif reason := not_a_label(namespace):
            yield Problem("TW709", "/metadata/namespace", f"the namespace {namespace[:80]} {reason}", "choose another namespace")
    yield from label_problems(at(manifest, "/metadata/labels"), "/metadata/labels")
    yield from annotation_problems(at(manifest, "/metadata/annotations"), "/metadata/annotations")
