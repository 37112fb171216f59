"""What the API server checks in its own kinds and their published schema leaves out: choices, numbers, names, amounts.

Kubernetes publishes types; the rest of its validation is code (pkg/apis/core/validation, pkg/apis/batch/validation). What one
value alone decides is written here as keywords of JSON Schema, and put into the definitions once they are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_CORE, _BATCH, _META = "io.k8s.api.core.v1.", "io.k8s.api.batch.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."
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
    f"{_BATCH}JobSpec.completionMode": "Indexed NonIndexed",
    f"{_BATCH}JobSpec.podReplacementPolicy": "Failed TerminatingOrFailed",
    f"{_BATCH}PodFailurePolicyRule.action": "Count FailIndex FailJob Ignore",
    f"{_BATCH}PodFailurePolicyOnExitCodesRequirement.operator": "In NotIn",
    f"{_BATCH}CronJobSpec.concurrencyPolicy": "Allow Forbid Replace",
}
"""Field of a definition -> its values."""

PATTERNS: dict[str, str] = {
    f"{_CORE}Container.name": _LABEL,
    f"{_CORE}Volume.name": _LABEL,
    f"{_CORE}ContainerPort.name": r"^(?=.{1,15}\Z)(?=[-0-9]*[a-z])[a-z0-9]+(-[a-z0-9]+)*\Z",  # an IANA service name
    f"{_CORE}PodSpec.hostname": _LABEL,
    f"{_CORE}PodSpec.subdomain": _LABEL,
    f"{_CORE}PodSpec.serviceAccountName": _SUBDOMAIN,
    f"{_CORE}EnvVar.name": r"^[^=\x00-\x1f\x7f]+\Z",
    f"{_CORE}VolumeMount.mountPath": r"^[^:]+\Z",
}
"""Field of a definition -> the form of its text."""

RANGES: dict[str, tuple[int, int]] = {
    f"{_CORE}ContainerPort.containerPort": (1, 65535),
    f"{_CORE}ContainerPort.hostPort": (0, 65535),
    f"{_CORE}ServicePort.port": (1, 65535),
    f"{_CORE}PodSpec.terminationGracePeriodSeconds": (0, 2**63 - 1),
    f"{_BATCH}JobSpec.backoffLimit": (0, 2**31 - 1),
    f"{_BATCH}JobSpec.backoffLimitPerIndex": (0, 2**31 - 1),
    f"{_BATCH}JobSpec.completions": (0, 2**31 - 1),
    f"{_BATCH}JobSpec.parallelism": (0, 2**31 - 1),
    f"{_BATCH}JobSpec.activeDeadlineSeconds": (0, 2**63 - 1),
    f"{_BATCH}JobSpec.ttlSecondsAfterFinished": (0, 2**31 - 1),
}
"""Field of a definition -> the least and the largest number."""

NOT_EMPTY = (f"{_CORE}PodSpec.containers",)
"""Lists that need an item."""


def apply_facts(definitions: dict[str, Any]) -> None:
    """Write the facts into loaded definitions; what a version of Kubernetes does not have is passed over."""
    for place, values in CHOICES.items():
        _set(definitions, place, enum=[*values.split(), None])
    for place, pattern in PATTERNS.items():
        _set(definitions, place, pattern=pattern)
    for place, (least, most) in RANGES.items():
        _set(definitions, place, minimum=least, maximum=most)
    for place in NOT_EMPTY:
        _set(definitions, place, minItems=1)
    if quantity := definitions.get("io.k8s.apimachinery.pkg.api.resource.Quantity"):
        quantity["pattern"] = _QUANTITY
    for integer in _integers(definitions):
        bits = 31 if integer["format"] == "int32" else 63
        integer.setdefault("minimum", -(2**bits))
        integer.setdefault("maximum", 2**bits - 1)


def _set(definitions: dict[str, Any], place: str, **keywords: Any) -> None:
    name, _, field = place.rpartition(".")
    found = definitions.get(name, {}).get("properties", {}).get(field)
    if found is not None:
        found.update(keywords)


def _integers(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("format") in ("int32", "int64") and "type" in node:
            yield node
        for below in node.values():
            yield from _integers(below)
    elif isinstance(node, list):
        for below in node:
            yield from _integers(below)
