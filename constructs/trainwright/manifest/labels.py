"""Namespace, labels and annotations of objects, and labels of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.provenance import Why
from trainwright.plan import Plan
from trainwright.plan.stated import Words, merged
from trainwright.run import Run

PLAN_PREFIXES = ("app.kubernetes.io/", "trainwright.dev/", "sidecar.istio.io/")
"""Of label keys that the plan sets."""
OF_TEAMS = frozenset({"app.kubernetes.io/version", "app.kubernetes.io/component", "app.kubernetes.io/part-of"})
"""Kubernetes' recommended labels that the plan leaves to those who write runs."""

RUN_LABEL, IDENTITY_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
"""Of the run, on objects and pods; of this identity of it, on pods alone."""

TEAM_LABEL = "trainwright.dev/team"
"""On objects: who owns the run."""

ROLE_LABEL = "trainwright.dev/role"
"""On pods: which of the run's roles they have."""

MANAGED = {"app.kubernetes.io/managed-by": "trainwright"}
"""On every object."""

KEEP = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
"""Argo CD neither prunes the object nor deletes it with its Application: the end of a run must not delete checkpoints."""

FOUNDATION = {"app.kubernetes.io/component": "foundation"}
"""On an object that runs share, and that must be there before they are."""


def is_the_plans(key: str, value: str) -> bool:
    """Whether nobody but the plan may set a label."""
    return key.startswith(PLAN_PREFIXES) and (key not in OF_TEAMS or (key, value) in FOUNDATION.items())


def in_foundation(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is part of no run's identity: a shared one, called after its own content."""
    return FOUNDATION.items() <= (manifest["metadata"].get("labels") or {}).items()


def namespace_of(plan: Plan) -> Why:
    """Of an object that a run makes."""
    return Why(plan.namespace, "run:/namespace", "as asked")


def object_labels(run: Run) -> dict[str, Any]:
    """Labels of every object of a run: free to change, they restart nothing.

    The identity is in the names. As a label it would be the one by which Argo CD may track what is its own.
    """
    return {
        RUN_LABEL: Why(run.run, "run:/run", "the run"),
        **MANAGED,
        TEAM_LABEL: Why(run.team, "run:/team", "who owns the run"),
        **{key: Why(value, f"run:/labels/{escape(key)}", "as asked; objects only") for key, value in run.labels.items()},
    }


def object_annotations(run: Run) -> dict[str, Any]:
    """Annotations of the object that carries the run, as a field of its metadata; nothing where it states none."""
    stated = run.annotations.items()
    annotations = {key: Why(text, f"run:/annotations/{escape(key)}", "as asked; of this object only") for key, text in stated}
    return {"annotations": annotations} if annotations else {}


def pod_annotations(run: Run, role: Role | None) -> dict[str, Any]:
    """Annotations that are stated of a role's pods; None for a pod that has no role."""
    return _asked(run, role, "pod_annotations", lambda words: words.pod_annotations)


def _asked(run: Run, role: Role | None, field: str, read: Callable[[Words], Mapping[str, str]]) -> dict[str, Any]:
    stated = merged(run, role, field, read)
    return {key: Why(value, source, "as asked; part of the identity") for key, (value, source) in stated.items()}


def pod_labels(run: Run, plan: Plan, role: Role | None) -> dict[str, Any]:
    """Labels of a role's pods, or of one that has no role: part of the run's identity."""
    return {
        RUN_LABEL: Why(run.run, "run:/run", "the run"),
        IDENTITY_LABEL: Why(plan.name, "trainwright", "this identity of the run"),
        "sidecar.istio.io/inject": Why(
            "false", "trainwright", "a mesh sidecar never ends, and it sits between ranks and rendezvous"
        ),
        **_asked(run, role, "pod_labels", lambda words: words.pod_labels),
    }
