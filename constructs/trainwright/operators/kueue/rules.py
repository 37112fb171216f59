"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.fields import mapping, text
from trainwright.objects.problem import Problem
from trainwright.operators.rows import PODS, parts

_GROUP, _REQUIRED, _PREFERRED = (
    f"kueue.x-k8s.io/podset-{name}" for name in ("group-name", "required-topology", "preferred-topology")
)

def groups(manifest: Mapping[str, Any], _: object) -> Iterator[Problem]:
    """Two sets of pods that are placed together, in the same level of the same topology."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for pod in parts(manifest, PODS):
        stated = mapping(pod.value, "/metadata/annotations")
        if name := text(stated, f"/{escape(_GROUP)}"):
            found.setdefault(name, []).append((f"{pod.pointer}/metadata/annotations/{escape(_GROUP)}", stated))
    for name, sets in found.items():
        place, stated = sets[-1]
        if len(sets) != 2:
            message = f"the group {name} has {len(sets)} sets of pods, and Kueue places exactly 2 together"
            yield Problem("TW711", place, message, "give two sets of pods the same group, of which one has a single pod")
        elif any(sets[0][1].get(key) != stated.get(key) for key in (_REQUIRED, _PREFERRED)):
            yield Problem("TW711", place, f"the sets of pods in group {name} ask for different topologies", "ask for the same")
