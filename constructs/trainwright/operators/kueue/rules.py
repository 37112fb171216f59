"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.manifest.pods import pods_in
from trainwright.objects.fields import mapping
from trainwright.objects.problem import Problem

TOPOLOGIES = tuple(f"kueue.x-k8s.io/podset-{name}-topology" for name in ("required", "preferred", "unconstrained"))


def one_topology(manifest: Mapping[str, Any], _: object) -> Iterator[Problem]:
    """Pods may be anywhere in an object of any kind."""
    for pod in pods_in(manifest):
        asked = [name for name in TOPOLOGIES if name in mapping(pod.template, "/metadata/annotations")]
        if len(asked) > 1 and "kueue.x-k8s.io/queue-name" in mapping(manifest, "/metadata/labels"):
            place = f"{pod.pointer.removesuffix('/spec')}/metadata/annotations/{escape(asked[1])}"
            message = f"pods have one kind of topology, and these ask for {len(asked)}"
            yield Problem("TW711", place, message, f"keep {asked[0]}")
