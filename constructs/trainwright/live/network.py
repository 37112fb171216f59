"""Which NetworkPolicies keep the pods of a run from each other."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.live.case import Case
from trainwright.live.rows import Fact
from trainwright.live.snapshot import NETWORK_POLICY
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import mapping
from trainwright.objects.network import DIRECTIONS, End, closing


def policy_facts(case: Case) -> Iterator[Fact]:
    """One ``policy`` fact for each direction in which policies select the run's pods and none of them admits their own peers."""
    if not case.pods:
        return
    namespace = mapping(case.snapshot.get(GroupKind("", "Namespace"), "", case.namespace), "/metadata/labels")
    pod = End(mapping(case.pods[0].manifest, "/metadata/labels"), namespace)
    for direction in DIRECTIONS:
        policies = list(case.snapshot.of(NETWORK_POLICY, case.namespace))
        if closed := closing(policies, pod, direction, pod, "any"):
            names = ", ".join(closed)
            shows = f"NetworkPolicy/{names}: selects the run's pods and admits no {direction.lower()} among them"
            yield Fact("policy", {"name": names, "direction": direction.lower()}, shows)
