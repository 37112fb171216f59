"""What NetworkPolicies let through (https://kubernetes.io/docs/concepts/services-networking/network-policies).

Policies add up: a pod that none of them selects in a direction is open there, and what one of them admits is admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Literal, NamedTuple

from trainwright.objects.fields import items, mapping, text
from trainwright.objects.selectors import selects

Policy = Mapping[str, Any]
Direction = Literal["Ingress", "Egress"]
DIRECTIONS: tuple[Direction, ...] = ("Ingress", "Egress")
_PEERS = {"Ingress": "from", "Egress": "to"}
DNS_PORTS = (53, "53", "dns", "domain")
WIDE = 16
"""Bits of a block of addresses that may well be those of the cluster's pods."""


class End(NamedTuple):
    """A pod, by its labels and by those of its namespace."""

    labels: Mapping[str, str]
    namespace: Mapping[str, str]


DNS = End({"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
"""The cluster's own (kubernetes, cluster/addons/dns)."""


def closing(
    policies: Sequence[Policy], pod: End, direction: Direction, other: End, wanted: Literal["any", "all", "dns"]
) -> list[str]:
    """Names of the policies that keep a pod from another one in a direction; none where the way is open.

    Args:
        policies: of the pod's namespace.
        pod: whose traffic it is.
        direction: seen from that pod.
        other: the pod that it comes from or goes to.
        wanted: ``any`` port but that of DNS; ``all`` ports, since ranks listen on those that the kernel chooses; or ``dns``.
    """
    selecting = [
        one for one in policies if direction in _directions(one) and selects(mapping(one, "/spec/podSelector"), pod.labels)
    ]
    if any(_admits(one, direction, other, pod.namespace, wanted) for one in selecting):
        return []
    return [text(one, "/metadata/name") for one in selecting]


def _directions(policy: Policy) -> list[str]:
    stated = mapping(policy, "/spec").get("policyTypes")
    return stated if isinstance(stated, list) else ["Ingress", *(["Egress"] if "egress" in mapping(policy, "/spec") else [])]


def _admits(policy: Policy, direction: Direction, other: End, own: Mapping[str, str], wanted: str) -> bool:
    for _, rule in items(policy, f"/spec/{direction.lower()}"):
        listed = list(items(rule, f"/{_PEERS[direction]}"))
        if _ports_do(rule, wanted) and (not listed or any(_is_peer(peer, other, own) for _, peer in listed)):
            return True
    return False


def _ports_do(rule: Mapping[str, Any], wanted: str) -> bool:
    ports = list(_ports(rule))
    if not ports:
        return True
    if wanted == "dns":
        return any(protocol == "UDP" and (first is None or first in DNS_PORTS or _within(53, first, last))
                   for protocol, first, last in ports)
    if wanted == "all":
        return any(protocol == "TCP" and (first is None or _within(60000, first, last)) for protocol, first, last in ports)
    return not all(first in DNS_PORTS for _, first, _ in ports)


def _ports(rule: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for _, one in items(rule, "/ports"):
        yield text(one, "/protocol", "TCP"), one.get("port"), one.get("endPort")


def _within(port: int, first: Any, last: Any) -> bool:
    return isinstance(first, int) and isinstance(last, int) and first <= port <= last


def _is_peer(peer: Mapping[str, Any], other: End, own: Mapping[str, str]) -> bool:
    if "ipBlock" in peer:
        try:
            return ip_network(text(peer, "/ipBlock/cidr")).prefixlen <= WIDE
        except ValueError:
            return False
    if "namespaceSelector" in peer:
        of_namespace = selects(mapping(peer, "/namespaceSelector"), other.namespace)
    else:
        of_namespace = other.namespace == own
    return of_namespace and selects(mapping(peer, "/podSelector"), other.labels)
