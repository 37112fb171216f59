"""The cluster's DNS: names of pods that resolve, and why others would not.

A Service's own name leads to the pods that its selector matches. A headless Service gives ``<host name>.<service>`` a record too,
for each pod whose host name and subdomain are set, which its selector matches, and which is ready or published before it is
(Kubernetes documentation, "DNS for Services and Pods").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trainwright.rehearsal.networks.network import Network
from trainwright.rehearsal.stated.kinds import Service
from trainwright.rehearsal.stated.objects import Objects, Slot

CLUSTER_DOMAIN = "cluster.local"
_FILE_ENDINGS = frozenset({
    "log", "json", "jsonl", "txt", "csv", "yaml", "yml", "out", "err", "pt", "bin", "ckpt", "safetensors", "tar",
})
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """A name that looks like a pod's of this run and would not resolve."""

    name: str
    reason: str
    fix: str


class ClusterDns:
    """The cluster's DNS, as the pods of one run see it."""

    def __init__(self, objects: Objects, network: Network) -> None:
        self._objects, self._network = objects, network
        self._hosts = {slot.host_name: slot for slot in objects.slots}
        full = f"{objects.namespace}.svc.{CLUSTER_DOMAIN}"
        self._bare = {
            *(name for name in objects.services if len(self._selected(name)) == 1 and name != objects.name),
            *(host for host, slot in self._hosts.items() if f"{slot.spec.subdomain}.{full}" in slot.spec.dns_config.searches),
        }
        """Names that need no Service behind them: of a pod's own Service, and those that a pod's search list completes."""
        services = {*objects.services, *(slot.spec.subdomain for slot in objects.slots if slot.spec.subdomain)}
        stems = {re.sub(r"\d+$", "", host) for host in self._hosts}
        longest = r"(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
        parts = (
            rf"(?:{_any_of(stems)})\d+\.{_LABEL}", rf"{_LABEL}\.(?:{_any_of(services)})(?!\.svc)",
            rf"(?:{_any_of(objects.services)})\.{re.escape(objects.namespace)}(?![\w-])", rf"(?:{_any_of(self._bare)})(?![\w.])",
        )  # fmt: skip
        before, after = r"(?:(?<![\w.\-/])|(?<=//))", r"(?![\w\-])\.?(?![\w])(?::(\d+))?"
        self._candidate = re.compile(rf"{before}((?:{'|'.join(parts)}){longest}){after}")

    def rewrite(self, text: str, port: Callable[[int, int], int] | None = None) -> str:
        """Replace every name that resolves by its address, unless pods find each other by name.

        ``port`` has what stands for a port, by its number and the pod's.
        """
        if self._network.has_names:
            return text

        def replace(match: re.Match[str]) -> str:
            found = self.find(match[1])
            if isinstance(found, Unresolvable):
                return match[0]
            number = int(match[2]) if match[2] else None
            here = number if number is None or port is None else port(number, found.number)
            return self.address(found) + ("" if here is None else f":{here}")

        return self._candidate.sub(replace, text)

    def unresolvable(self, text: str) -> Iterator[Unresolvable]:
        """Names in ``text`` that look like a pod's of this run and would not resolve."""
        for match in self._candidate.finditer(text):
            found = self.find(match[1])
            if isinstance(found, Unresolvable) and not _is_file_name(match[1]):
                yield found

    def resolve(self, name: str) -> str | Unresolvable:
        """Address of the pod that a peer names so, with or without namespace and domain."""
        found = self.find(name)
        return found if isinstance(found, Unresolvable) else self.address(found)

    def find(self, name: str) -> Slot | Unresolvable:
        """The pod that a peer names so."""
        host, *rest = name.split(".")
        full = [self._objects.namespace, "svc", *CLUSTER_DOMAIN.split(".")]
        if host in self._objects.services and rest == full[: len(rest)]:
            return self._behind(host, name)
        if not rest and host in self._bare:
            return self._hosts[host]
        if not rest:
            return Unresolvable(name, "a pod's bare host name resolves only in that pod", f"write {name}.<service>")
        service, *domain = rest
        if domain != full[: len(domain)]:
            return Unresolvable(name, f"it ends in .{'.'.join(domain)}, and names of the Service end in .{'.'.join(full)}",
                                f"write {host}.{service}")
        if reason := self._why_no_records(service, self._hosts.get(host, self._objects.slots[0])):
            return Unresolvable(name, *reason)
        slot = self._hosts.get(host)
        if slot is None:
            first, *_, last = (*self._hosts, *self._hosts)
            return Unresolvable(name, f"no pod has the host name {host}: they are {first} to {last}", "write one of those")
        if mismatch := _mismatch(self._objects.services[service], slot):
            return Unresolvable(name, f"the selector of Service {service} does not match the pod: {mismatch}",
                                "make the selector match the labels of the pods")
        return slot

    def record(self, slot: Slot) -> str:
        """Its address, and all names that lead to it, as a line of ``/etc/hosts``."""
        bare = [slot.host_name] if slot.host_name in self._bare else []
        own = [name for name, service in self._objects.services.items() if _mismatch(service, slot) is None]
        stems = [f"{slot.host_name}.{name}" for name in own if name == slot.spec.subdomain and self._is_headless(name)]
        stems += [name for name in own if self._selected(name)[0] is slot]
        namespace = f".{self._objects.namespace}"
        ends = ("", namespace, f"{namespace}.svc", f"{namespace}.svc.{CLUSTER_DOMAIN}", f"{namespace}.svc.{CLUSTER_DOMAIN}.")
        return " ".join([self.address(slot), *bare, *(f"{stem}{end}" for stem in stems for end in ends)])

    def _is_headless(self, name: str) -> bool:
        return self._objects.services[name].spec.cluster_ip == "None"

    def address(self, slot: Slot) -> str:
        return self._network.address(slot.number)

    def is_bare_host_name(self, text: str) -> bool:
        """Whether ``text`` is a pod's host name without a Service, and none that resolves so."""
        return text in self._hosts and text not in self._bare

    def hidden(self, slot: Slot) -> bool:
        """Whether no Service publishes the pod before it is ready."""
        own = [service for service in self._objects.services.values() if _mismatch(service, slot) is None]
        return bool(own) and not any(service.spec.publish_not_ready_addresses for service in own)

    def _selected(self, name: str) -> list[Slot]:
        return [slot for slot in self._objects.slots if _mismatch(self._objects.services[name], slot) is None]

    def _behind(self, service: str, name: str) -> Slot | Unresolvable:
        """One of the pods that a Service leads to."""
        if self._objects.services[service].spec.type == "ExternalName":
            return Unresolvable(name, *_of_another_type(self._objects.services[service]))
        if found := self._selected(service):
            return found[0]
        mismatch = _mismatch(self._objects.services[service], self._objects.slots[0])
        return Unresolvable(name, f"the selector of Service {service} does not match any pod: {mismatch}",
                            "make the selector match the labels of the pods")

    def _why_no_records(self, name: str, slot: Slot) -> tuple[str, str] | None:
        """Why the Service of this name gives the pod no record, and what to do; None where it does."""
        service = self._objects.services.get(name)
        kind, namespace = self._objects.workload["kind"], self._objects.namespace
        if service is None:
            elsewhere = self._objects.services_elsewhere.get(name)
            others = ", ".join(self._objects.services) or "none"
            missing = f"which is missing (Services beside the {kind}: {others})"
            why = f"which is in namespace {elsewhere}" if elsewhere else missing
            return f"it needs Service {name}, {why}", f"add a headless Service {name} in namespace {namespace}"
        if service.spec.type != "ClusterIP":
            return _of_another_type(service)
        if not self._is_headless(name):
            return f"Service {name} is not headless, so it has one address, and the pods have no names", "write clusterIP: None"
        if slot.spec.subdomain != name:
            subdomain = f"subdomain is {slot.spec.subdomain}" if slot.spec.subdomain else "subdomain is not set"
            why = f"the pods' {subdomain}, so Service {name} gives them no DNS records"
            return why, f"write subdomain: {name} in the template"
        waits = any(container.readiness_probe for container in slot.spec.containers)
        says_so = "publish_not_ready_addresses" in service.spec.model_fields_set or name not in self._objects.made_services
        if waits and says_so and not service.spec.publish_not_ready_addresses:
            return (f"Service {name} does not publish pods before they are ready, and ranks must find each other earlier",
                    "write publishNotReadyAddresses: true")
        return None


def _of_another_type(service: Service) -> tuple[str, str]:
    name, kind = service.metadata.name, service.spec.type
    why = "leads out of the cluster" if kind == "ExternalName" else "cannot be headless"
    message = f"Service {name} is of type {kind}, which {why}, and gives the pods no names"
    return message, "write type: ClusterIP and clusterIP: None"


def _any_of(words: Iterable[str]) -> str:
    found = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, found)) or r"(?!)"


def _mismatch(service: Service, slot: Slot) -> str | None:
    if not service.spec.selector:
        return "it has no selector"
    for key, wanted in service.spec.selector.items():
        if key not in slot.made.labels:
            return f"the pods have no label {key}"
        if slot.made.labels[key] != wanted:
            return f"it wants {key}={wanted}, and the label is {slot.made.labels[key]}"
    return None


def _is_file_name(name: str) -> bool:
    return name.rpartition(".")[2] in _FILE_ENDINGS
