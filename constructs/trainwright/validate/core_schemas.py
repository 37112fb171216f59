"""The JSON schemas of Kubernetes' own kinds, version by version: data of the package ``kubernetes-validate``.

Its files are read where they lie: importing it would import jsonschema too, and take a tenth of a second. Kubernetes publishes
types; the rest of its validation is code (pkg/apis/core/validation, pkg/apis/batch/validation). What one value alone decides is
written here as keywords of JSON Schema (choices, numbers, names, amounts), and put into the definitions once they are loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainwright.objects.formats import INTEGERS


class UnknownVersionError(Exception):
    """A Kubernetes version that the library has no schemas for."""


class UnknownKindError(Exception):
    """A kind that this Kubernetes version does not have."""


@cache
def versions() -> tuple[str, ...]:
    """Kubernetes versions with schemas, oldest first, such as ``1.34``."""
    return tuple(_folders())


def known_version(version: str | None) -> str:
    """A version such as ``1.34`` or ``v1.34.2`` as the library knows it; the newest for None.

    Raises:
        UnknownVersionError: it has no schemas.
    """
    if version is None:
        return versions()[-1]
    match = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", version)
    if match is None or match[1] not in versions():
        raise UnknownVersionError(f"there are no schemas of Kubernetes {version}; there are those of {', '.join(versions())}")
    return match[1]


@cache
def schema_of(kind: str, api_version: str, version: str) -> Mapping[str, Any]:
    """The schema of a kind, with definitions in place of the references to them.

    Raises:
        UnknownKindError: the version has no such kind.
    """
    group, _, suffix = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], suffix) if part)
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise UnknownKindError(name)
    try:
        schema = _read(version, name)
    except FileNotFoundError as error:
        raise UnknownKindError(f"{api_version} {kind}") from error
    known = [(entry["group"], entry["kind"]) for entry in schema.get("x-kubernetes-group-version-kind", ())]
    if known and (group, kind) not in known:  # the file's name keeps a part of the group only, in lower case
        raise UnknownKindError(f"{api_version} {kind}")
    _complete(schema, version)
    return schema


def versions_with(kind: str, version: str) -> list[str]:
    """In which apiVersions a version of Kubernetes has a kind."""
    files = sorted(_folders()[version].glob(f"{kind.lower()}-*.json")) if re.fullmatch("[A-Za-z]+", kind) else []
    named = [one for file in files for one in json.loads(file.read_bytes()).get("x-kubernetes-group-version-kind", ())]
    return [f"{one['group']}/{one['version']}".lstrip("/") for one in named if one["kind"] == kind]


@cache
def definition(name: str, version: str) -> Mapping[str, Any]:
    """One of :func:`definitions`, with others in place of the references to them."""
    holder = {"": {"$ref": f"/{name}"}}
    _complete(holder, version)
    return holder[""]


@cache
def definitions(version: str) -> dict[str, Any]:
    """What the schemas of a version refer to, by name, with the facts that the published schemas leave out."""
    found: dict[str, Any] = _read(version, "_definitions")["$defs"]
    apply_facts(found)
    return found


def _complete(schema: dict[str, Any], version: str) -> None:
    """Put definitions in place of references, and bounds at integers, in all that a schema leads to.

    jsonschema would resolve each reference anew for each value, which takes two fifths of its time. A version has 700
    definitions, of which a pod needs 150: each is completed when it is first referred to. Beside a reference are only words.
    """
    known, complete = definitions(version), _complete_definitions(version)
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and "type" in node and isinstance(node.get("format"), str) and node["format"] in INTEGERS:
            least, most = INTEGERS[node["format"]]
            node.setdefault("minimum", least)
            node.setdefault("maximum", most)
        for key, below in node.items() if isinstance(node, dict) else enumerate(node):
            reference = below.get("$ref") if isinstance(below, dict) else None
            if isinstance(reference, str):  # a JSONSchemaProps has a field of that name
                name = reference.rpartition("/")[2]
                node[key] = known[name]  # the key is there already, so that iterating goes on
                if name not in complete:
                    complete.add(name)
                    waiting.append(known[name])
            elif isinstance(below, dict | list):
                waiting.append(below)


@cache
def _complete_definitions(version: str) -> set[str]:
    """Names of definitions that need no completing any more: they hold each other, and some themselves."""
    return set()


def _read(version: str, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_folders()[version] / f"{name}.json").read_bytes())
    return content


@cache
def _folders() -> dict[str, Path]:
    """Version -> folder of its schemas, which allow no unknown fields."""
    package = find_spec("kubernetes_validate")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("kubernetes-validate is not installed", name="kubernetes_validate")
    folders = {}
    for folder in (Path(package.origin).parent / "kubernetes-json-schema").iterdir():
        if match := re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)-local-strict", folder.name):
            folders[int(match[1]), int(match[2]), int(match[3])] = folder
    return {f"{major}.{minor}": folder for (major, minor, _), folder in sorted(folders.items())}


_CORE, _BATCH, _META = "io.k8s.api.core.v1.", "io.k8s.api.batch.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."
_AMOUNT, _PORT = "io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z"
_QUANTITY = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?\Z"

CHOICES: dict[str, str] = {
    f"{_CORE}PodSpec.restartPolicy": "Always OnFailure Never",
    f"{_CORE}PodSpec.dnsPolicy": "ClusterFirst ClusterFirstWithHostNet Default None",
    f"{_CORE}PodSpec.preemptionPolicy": "Never PreemptLowerPriority",
    f"{_CORE}Container.imagePullPolicy": "Always IfNotPresent Never",
    f"{_CORE}Container.terminationMessagePolicy": "File FallbackToLogsOnError",
    f"{_CORE}ContainerPort.protocol": "TCP UDP SCTP",
    f"{_CORE}ServicePort.protocol": "TCP UDP SCTP",
    f"{_CORE}ServiceSpec.type": "ClusterIP ExternalName LoadBalancer NodePort",
    f"{_CORE}SeccompProfile.type": "Localhost RuntimeDefault Unconfined",
    f"{_CORE}Toleration.operator": "Exists Equal Lt Gt",
    f"{_CORE}Toleration.effect": "NoSchedule PreferNoSchedule NoExecute",
    f"{_CORE}TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
    f"{_CORE}NodeSelectorRequirement.operator": "DoesNotExist Exists Gt In Lt NotIn",
    f"{_CORE}PersistentVolumeClaimSpec.volumeMode": "Block Filesystem",
    f"{_META}LabelSelectorRequirement.operator": "DoesNotExist Exists In NotIn",
    f"{_CORE}TopologySpreadConstraint.nodeAffinityPolicy": "Honor Ignore",
    f"{_CORE}TopologySpreadConstraint.nodeTaintsPolicy": "Honor Ignore",
    f"{_CORE}PodSecurityContext.fsGroupChangePolicy": "Always OnRootMismatch",
    f"{_CORE}AppArmorProfile.type": "Localhost RuntimeDefault Unconfined",
    f"{_CORE}VolumeMount.mountPropagation": "Bidirectional HostToContainer None",
    f"{_CORE}HTTPGetAction.scheme": "HTTP HTTPS",
    f"{_CORE}ImageVolumeSource.pullPolicy": "Always IfNotPresent Never",
    f"{_BATCH}PodFailurePolicyOnPodConditionsPattern.status": "False True Unknown",
    f"{_BATCH}JobSpec.completionMode": "Indexed NonIndexed",
    f"{_BATCH}JobSpec.podReplacementPolicy": "Failed TerminatingOrFailed",
    f"{_BATCH}PodFailurePolicyRule.action": "Count FailIndex FailJob Ignore",
    f"{_BATCH}PodFailurePolicyOnExitCodesRequirement.operator": "In NotIn",
    f"{_BATCH}CronJobSpec.concurrencyPolicy": "Allow Forbid Replace",
}
"""Field of a definition -> its values."""

DEFAULTED = tuple(
    f"{_CORE}{field}"
    for field in (
        "PodSpec.restartPolicy", "PodSpec.dnsPolicy", "Container.imagePullPolicy", "Container.terminationMessagePolicy",
        "ContainerPort.protocol", "ServicePort.protocol", "ServiceSpec.type", "Toleration.operator", "Toleration.effect",
        "HTTPGetAction.scheme", "ImageVolumeSource.pullPolicy",
    )
)  # fmt: skip
"""Those for which an empty text is no value, and gets the default, as programs write it that fill templates in."""

PATTERNS: dict[str, str] = {
    f"{_CORE}Container.name": _LABEL,
    f"{_CORE}Volume.name": _LABEL,
    f"{_CORE}ContainerPort.name": r"^(?=.{1,15}\Z)(?=[-0-9]*[a-z])[a-z0-9]+(-[a-z0-9]+)*\Z",  # an IANA service name
    f"{_CORE}PodSpec.hostname": rf"^\Z|{_LABEL}",
    f"{_CORE}PodSpec.subdomain": rf"^\Z|{_LABEL}",
    **{f"{_CORE}PodSpec.{field}": rf"^\Z|{_SUBDOMAIN}" for field in (
        "nodeName", "priorityClassName", "schedulerName", "serviceAccountName")},
    f"{_CORE}PodSpec.runtimeClassName": _SUBDOMAIN,
    f"{_CORE}EnvVar.name": r"^[^=\x00-\x1f\x7f]+\Z",
    f"{_CORE}VolumeMount.mountPath": r"^[^:]+\Z",
    f"{_CORE}HostPathVolumeSource.type": r"^((Directory|File)(OrCreate)?|Socket|CharDevice|BlockDevice|)\Z",
}
"""Field of a definition -> the form of its text."""

_COUNT, _POSITIVE = (0, 2**31 - 1), (1, 2**31 - 1)
RANGES: dict[str, tuple[int, int]] = {
    f"{_CORE}ContainerPort.containerPort": (1, 65535),
    f"{_CORE}ContainerPort.hostPort": (0, 65535),
    f"{_CORE}ServicePort.port": (1, 65535),
    f"{_CORE}PodSpec.terminationGracePeriodSeconds": (0, 2**63 - 1),
    f"{_CORE}PodSpec.activeDeadlineSeconds": _POSITIVE,
    f"{_CORE}TopologySpreadConstraint.maxSkew": _POSITIVE,
    f"{_CORE}TopologySpreadConstraint.minDomains": _POSITIVE,
    f"{_CORE}PreferredSchedulingTerm.weight": (1, 100),
    f"{_CORE}WeightedPodAffinityTerm.weight": (1, 100),
    f"{_CORE}ServiceAccountTokenProjection.expirationSeconds": (600, 2**32),
    f"{_CORE}Probe.terminationGracePeriodSeconds": _POSITIVE,
    f"{_CORE}GRPCAction.port": (1, 65535),
    **{f"{_CORE}Probe.{field}": _COUNT for field in (
        "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")},
    **{f"{_CORE}{one}SecurityContext.{field}": _COUNT for one in ("Pod", "") for field in ("runAsUser", "runAsGroup")},
    f"{_CORE}PodSecurityContext.fsGroup": _COUNT,
    **{f"{_BATCH}JobSpec.{field}": _COUNT for field in (
        "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "completions", "parallelism", "ttlSecondsAfterFinished")},
    f"{_BATCH}JobSpec.activeDeadlineSeconds": (0, 2**63 - 1),
    f"{_BATCH}SuccessPolicyRule.succeededCount": _COUNT,
    **{f"{_BATCH}CronJobSpec.{field}": _COUNT for field in (
        "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")},
    **{f"{_CORE}{kind}VolumeSource.defaultMode": (0, 0o777) for kind in ("ConfigMap", "DownwardAPI", "Projected", "Secret")},
    **{f"{_CORE}{item}.mode": (0, 0o777) for item in ("KeyToPath", "DownwardAPIVolumeFile")},
}
"""Field of a definition -> the least and the largest number."""

NOT_EMPTY = (f"{_CORE}PodSpec.containers", f"{_CORE}NodeSelector.nodeSelectorTerms")
"""Lists that need an item."""

FILLED_IN = (
    f"{_BATCH}PodFailurePolicyOnPodConditionsPattern.status",
    "io.k8s.api.rbac.v1.RoleRef.apiGroup",
    "io.k8s.api.networking.v1.NetworkPolicySpec.podSelector",
)
"""Fields that the published schemas of some versions require, and the API server fills in (pkg/apis/*/v1/defaults.go)."""


def apply_facts(definitions: dict[str, Any]) -> None:
    """Write the facts into loaded definitions; those of fields that a version of Kubernetes does not have are left out."""
    for place, values in CHOICES.items():
        _set(definitions, place, enum=[*values.split(), None, *([""] if place in DEFAULTED else [])])
    for place, pattern in PATTERNS.items():
        _set(definitions, place, pattern=pattern)
    for place, (least, most) in RANGES.items():
        _set(definitions, place, minimum=least, maximum=most)
    for place in NOT_EMPTY:
        _set(definitions, place, minItems=1)
    for place in FILLED_IN:
        name, _, field = place.rpartition(".")
        found = definitions.get(name, {})
        found["required"] = [key for key in found.get("required", ()) if key != field]
    definitions[_AMOUNT]["pattern"] = _QUANTITY
    for name in (_AMOUNT, _PORT):  # null fits both of their forms, and is nothing to the API server
        definitions[name]["oneOf"] = [*definitions[name]["oneOf"][1:], {"type": "string"}]


def _set(definitions: dict[str, Any], place: str, **keywords: Any) -> None:
    name, _, field = place.rpartition(".")
    found = definitions.get(name, {}).get("properties", {}).get(field)
    if found is not None:
        found.update(keywords)
