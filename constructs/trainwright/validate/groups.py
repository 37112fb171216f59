"""API groups and versions that no release of anybody serves, and the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from trainwright.objects.problem import Problem
from trainwright.validate.core import CORE_GROUPS
from trainwright.validate.core_schemas import versions_with
from trainwright.validate.field_names import known_kinds

ALSO_SERVED = frozenset({"kubeflow.org/v1 MPIJob", "kueue.x-k8s.io/v1alpha1 Cohort", "kueue.x-k8s.io/v1alpha1 Topology"})
"""Kinds whose fields are not in the table: the Training Operator's MPIJob, and those of Kueue before 0.14."""

ALIKE = frozenset({"training.kubedl.io", "azmonitoring.coreos.com", "monitoring.rhobs"})
"""Groups of others that have kinds of the same names."""

COMMON = frozenset({"Application", "Cohort", "Job", "PodGroup", "Queue", "Topology"})
"""Names that many groups have a kind of."""

_NEAR = 0.85
"""How alike two groups are that are one, misspelt (difflib)."""


def nobody_serves(api_version: str, kind: str, kubernetes: str) -> Iterator[Problem]:
    """Said of an object without a CRD, whose kind is known in another group or version, or whose group can be none."""
    group = api_version.rpartition("/")[0]
    known = {version: name for version, name in known_kinds() if name.lower() == kind.lower()}
    of_core = versions_with(kind, kubernetes)
    if f"{api_version} {kind}" in ALSO_SERVED or known.get(api_version) == kind or group in ALIKE:
        return
    groups = {version.rpartition("/")[0] for version in known}
    if group in groups:
        meant = [version for version in known if version.rpartition("/")[0] == group]
    elif "." not in group or (group.removesuffix(".k8s.io") in CORE_GROUPS and of_core):
        meant = [*of_core, *known]  # a CRD's group is a domain
    elif kind in COMMON:
        meant = [version for version in known if _is_near(group, version.rpartition("/")[0])]
    else:
        meant = list(known)
    named = [version if known.get(version, kind) == kind else f"{version} with kind {known[version]}" for version in meant]
    if named or "." not in group:
        other = "; or give its definition, `--crds DIR`" if "." in group else ""
        fix = f"write {' or '.join(named)}" if named else "write the group with its domain, as in jobset.x-k8s.io/v1alpha2"
        yield Problem("TW701", "/apiVersion", f"nobody serves {kind} in {api_version}", f"{fix}{other}")


def _is_near(group: str, other: str) -> bool:
    """Misspelt, or the domain above: ``volcano.sh`` for ``batch.volcano.sh``."""
    return other.endswith(f".{group}") or SequenceMatcher(None, group, other).ratio() > _NEAR
