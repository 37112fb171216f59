"""Which NetworkPolicies keep the pods of a run from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.live.case import Case
from trainwright.live.rows import Fact
from trainwright.live.snapshot import NETWORK_POLICY, Object
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import items, mapping, text
from trainwright.objects.selectors import selects

_PEERS = {"Ingress": "from", "Egress": "to"}


def policy_facts(case: Case) -> Iterator[Fact]:
    """One ``policy`` fact for each direction in which policies select the run's pods and none of them admits their own peers.

    Policies add up: what one of them admits is admitted (https://kubernetes.io/docs/concepts/services-networking/network-policies).
    """
    if not case.pods:
        return
    labels = mapping(case.pods[0].manifest, "/metadata/labels")
    namespace = mapping(case.snapshot.get(GroupKind("", "Namespace"), "", case.namespace), "/metadata/labels")
    selecting = [
        one for one in case.snapshot.of(NETWORK_POLICY, case.namespace) if selects(mapping(one, "/spec/podSelector"), labels)
    ]
    for direction, peers in _PEERS.items():
        of_direction = [one for one in selecting if direction in _directions(one)]
        if of_direction and not any(_admits(one, direction, peers, labels, namespace) for one in of_direction):
            names = ", ".join(str(one["metadata"]["name"]) for one in of_direction)
            shows = f"NetworkPolicy/{names}: selects the run's pods and admits no {direction.lower()} among them"
            yield Fact("policy", {"name": names, "direction": direction.lower()}, shows)


def _directions(policy: Object) -> list[str]:
    stated = mapping(policy, "/spec").get("policyTypes")
    return stated if isinstance(stated, list) else ["Ingress", *(["Egress"] if "egress" in mapping(policy, "/spec") else [])]


def _admits(policy: Object, direction: str, peers: str, labels: Mapping[str, str], namespace: Mapping[str, str]) -> bool:
    """Whether a rule lets pods with the same labels through, at a port that is not DNS's alone."""
    for _, rule in items(policy, f"/spec/{direction.lower()}"):
        ports = [one.get("port") for _, one in items(rule, "/ports")]
        if ports and all(port in (53, "53", "dns", "domain") for port in ports):
            continue
        listed = list(items(rule, f"/{peers}"))
        if not listed or any(_peer(peer, labels, namespace) for _, peer in listed):
            return True
    return False


def _peer(peer: Mapping[str, Any], labels: Mapping[str, str], namespace: Mapping[str, str]) -> bool:
    if "ipBlock" in peer:
        return text(peer, "/ipBlock/cidr") in ("0.0.0.0/0", "::/0")
    if "namespaceSelector" in peer and not selects(mapping(peer, "/namespaceSelector"), namespace):
        return False
    return selects(mapping(peer, "/podSelector"), labels)
