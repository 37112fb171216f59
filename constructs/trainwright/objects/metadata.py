"""An object's identity and metadata: apiVersion, kind, name, labels, and the forms that the API server demands of them.

After apimachinery, pkg/api/validation/objectmeta.go and pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.problem import Problem

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
MOST_ANNOTATIONS = 256 * 1024
"""In bytes: all keys and values of an object together."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123_LABEL = re.compile(_LABEL)
_DNS_1123_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_FORM = "must consist of lowercase letters, digits and dashes, and start and end with a letter or digit"


def not_a_label(name: str) -> str:
    """Why a name is not a DNS label (RFC 1123); empty where it is one."""
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters, and at most {LONGEST_LABEL} are allowed"
    return "" if _DNS_1123_LABEL.fullmatch(name) else _DNS_FORM


def not_a_service_label(name: str) -> str:
    """Why a name is not a DNS label that starts with a letter (RFC 1035); empty where it is one."""
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters, and at most {LONGEST_LABEL} are allowed"
    form = "must consist of lowercase letters, digits and dashes, start with a letter and end with a letter or digit"
    return "" if _DNS_1035_LABEL.fullmatch(name) else form


def not_a_subdomain(name: str) -> str:
    """Why a name is not a DNS subdomain (RFC 1123); empty where it is one."""
    if len(name) > LONGEST_SUBDOMAIN:
        return f"has {len(name)} characters, and at most {LONGEST_SUBDOMAIN} are allowed"
    return "" if _DNS_1123_SUBDOMAIN.fullmatch(name) else f"{_DNS_FORM}, in each part between dots"


def not_qualified(key: str) -> str:
    """Why a text cannot be the key of a label or annotation; empty where it can."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or not_a_subdomain(prefix)):
        return "has a prefix that is not a DNS name"
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters after the prefix, and at most {LONGEST_LABEL} are allowed"
    form = "must consist of letters, digits, dashes, dots and underscores, and start and end with a letter or digit"
    return "" if _QUALIFIED.fullmatch(name) else form


def not_a_label_value(value: str) -> str:
    """Why a text cannot be a label's value; empty where it can."""
    return "must not contain a slash" if "/" in value else not_qualified(value) if value else ""


def label_problems(labels: object, pointer: str) -> Iterator[Problem]:
    """Keys and values that the API server refuses in a mapping of labels."""
    if not isinstance(labels, Mapping):
        return
    for key, value in labels.items():
        place = f"{pointer}/{escape(key)}"
        if reason := not_qualified(key):
            yield Problem("TW705", place, f"label key {key} {reason}", "write a key such as example.com/team")
        if isinstance(value, str) and (reason := not_a_label_value(value)):
            yield Problem("TW705", place, f"label {key} is {value!r}, which {reason}", "write a shorter or simpler value")


def annotation_problems(annotations: object, pointer: str) -> Iterator[Problem]:
    """Keys that the API server refuses in a mapping of annotations, and more text than it takes."""
    if not isinstance(annotations, Mapping):
        return
    for key in annotations:
        if reason := not_qualified(key.lower()):
            place = f"{pointer}/{escape(key)}"
            yield Problem("TW705", place, f"annotation key {key} {reason}", "write a key such as example.com/team")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items() if isinstance(value, str))
    if size > MOST_ANNOTATIONS:
        fix = "keep large texts in a ConfigMap"
        yield Problem("TW705", pointer, f"the annotations hold {size:,} bytes, and at most {MOST_ANNOTATIONS:,} are allowed", fix)


def _not_a_path_segment(name: str) -> str:
    return "cannot be part of a path" if re.search(r"[/%]|^\.\.?$", name) else ""


_NAME_RULES: Mapping[GroupKind, Callable[[str], str]] = {
    GroupKind("", "Namespace"): not_a_label,
    GroupKind("", "Service"): not_a_service_label,
    **{
        GroupKind("rbac.authorization.k8s.io", kind): _not_a_path_segment
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
}
"""Kind -> why a name is not allowed, for kinds whose names follow another rule than DNS subdomains."""


def identity_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """What keeps a mapping from being an object that can be applied. Nothing else is checked then."""
    for key in ("apiVersion", "kind"):
        value = manifest.get(key)
        if not isinstance(value, str) or not value:
            yield Problem("TW709", f"/{key}", f"the object has no `{key}`", f"add `{key}:`; every Kubernetes object has one")
    api_version = manifest.get("apiVersion")
    if isinstance(api_version, str) and api_version and not re.fullmatch(r"([-a-z0-9.]+/)?[a-z0-9]+", api_version):
        fix = "write `v1`, or `group/version` such as `batch/v1`"
        yield Problem("TW709", "/apiVersion", f"`{api_version[:60]}` is not an API version", fix)
    if not _stated(manifest, "name"):
        why = " (`generateName` cannot be applied twice to the same object)" if _stated(manifest, "generateName") else ""
        yield Problem("TW709", "/metadata/name", f"the object has no name{why}", "add `metadata: {name: …}`")


def with_generated_name(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object that states ``generateName`` alone, with a name as the API server makes it (apiserver, pkg/storage/names)."""
    base = _stated(manifest, "generateName")
    if not base or _stated(manifest, "name"):
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "name": f"{base[: LONGEST_LABEL - 5]}abcde"}}


def _stated(manifest: Mapping[str, Any], key: str) -> str:
    value = at(manifest, f"/metadata/{key}")
    return value if isinstance(value, str) else ""


def metadata_problems(manifest: Mapping[str, Any], namespaced: bool | None = None) -> Iterator[Problem]:
    """Names and labels that the API server refuses. ``namespaced`` is None where the kind's scope is not known."""
    name = manifest["metadata"]["name"]
    rule = _NAME_RULES.get(GroupKind.of(manifest), not_a_subdomain)
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
