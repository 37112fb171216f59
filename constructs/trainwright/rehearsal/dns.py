"""The cluster's DNS: names of pods that resolve, and why others would not.

A headless Service gives ``<host name>.<service>`` a record for each pod whose host name and subdomain are set, which its selector
matches, and which is ready or published before it is (Kubernetes documentation, "DNS for Services and Pods").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.operators.job.pods import pod_host_name
from trainwright.rehearsal.kinds import Service
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.pod import pod_address, pod_labels

CLUSTER_DOMAIN = "cluster.local"
_FILE_ENDINGS = frozenset({
    "log", "json", "jsonl", "txt", "csv", "yaml", "yml", "out", "err", "pt", "bin", "ckpt", "safetensors", "tar",
})


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """A name that looks like a pod's of this run and would not resolve."""

    name: str
    reason: str
    fix: str


class ClusterDns:
    """The cluster's DNS, as the pods of one Job see it."""

    def __init__(self, objects: Objects, first_address: str) -> None:
        self._objects, self._first = objects, first_address
        job = objects.job
        services = {*objects.services, *([job.pod.subdomain] if job.pod.subdomain else [])}
        of_service = "|".join(map(re.escape, sorted(services, key=len, reverse=True))) or r"(?!)"
        label = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
        self._candidate = re.compile(
            rf"(?:(?<![\w.\-/])|(?<=//))"
            rf"((?:{re.escape(job.name)}-\d+\.{label}|{label}\.(?:{of_service}))(?:\.{label})*)(?![\w\-])\.?(?![\w])"
        )

    def rewrite(self, text: str) -> str:
        """Replace every name that resolves by its address."""

        def replace(match: re.Match[str]) -> str:
            found = self.resolve(match[1])
            return found if isinstance(found, str) else match[0]

        return self._candidate.sub(replace, text)

    def unresolvable(self, text: str) -> Iterator[Unresolvable]:
        """Names in ``text`` that look like a pod's of this run and would not resolve."""
        for match in self._candidate.finditer(text):
            found = self.resolve(match[1])
            if isinstance(found, Unresolvable) and not _is_file_name(match[1]):
                yield found

    def resolve(self, name: str) -> str | Unresolvable:
        """Address of the pod that a peer names so, with or without namespace and domain."""
        host, *rest = name.split(".")
        if not rest:
            return Unresolvable(name, "a pod's bare host name resolves only in that pod", f"write {name}.<service>")
        service, *domain = rest
        job = self._objects.job
        full = [job.namespace, "svc", *CLUSTER_DOMAIN.split(".")]
        if domain != full[: len(domain)]:
            return Unresolvable(name, f"it ends in .{'.'.join(domain)}, and names of the Service end in .{'.'.join(full)}",
                                f"write {host}.{service}")
        if reason := self._why_no_records(service):
            return Unresolvable(name, *reason)
        index = host.removeprefix(f"{job.name}-")
        if host == index or not index.isdecimal() or str(int(index)) != index or int(index) >= job.completions:
            last = pod_host_name(job.name, job.completions - 1)
            return Unresolvable(name, f"no pod has the host name {host}: they are {pod_host_name(job.name, 0)} to {last}",
                                "write one of those")
        if mismatch := self._mismatch(self._objects.services[service], int(index)):
            return Unresolvable(name, f"the selector of Service {service} does not match the pod: {mismatch}",
                                "make the selector match the labels of the pods")
        return self.address(int(index))

    def address(self, index: int) -> str:
        return pod_address(self._first, index)

    def is_bare_host_name(self, text: str) -> bool:
        """Whether ``text`` is a pod's host name without a Service."""
        return re.fullmatch(rf"{re.escape(self._objects.job.name)}-\d+", text) is not None

    def _why_no_records(self, name: str) -> tuple[str, str] | None:
        """Why the Service of this name gives the pods no records, and what to do; None where it does."""
        service = self._objects.services.get(name)
        job = self._objects.job
        if service is None:
            namespace = self._objects.services_elsewhere.get(name)
            others = ", ".join(self._objects.services) or "none"
            why = f"which is in namespace {namespace}" if namespace else f"which is missing (Services beside the Job: {others})"
            return f"it needs Service {name}, {why}", f"add a headless Service {name} in namespace {job.namespace}"
        if service.spec.cluster_ip != "None":
            return f"Service {name} is not headless, so it has one address, and the pods have no names", "write clusterIP: None"
        if job.pod.subdomain != name:
            subdomain = f"subdomain is {job.pod.subdomain}" if job.pod.subdomain else "subdomain is not set"
            why = f"the pods' {subdomain}, so Service {name} gives them no DNS records"
            return why, f"write subdomain: {name} in the template"
        waits = any(container.readiness_probe for container in job.pod.containers)
        if waits and not service.spec.publish_not_ready_addresses:
            return (f"Service {name} does not publish pods before they are ready, and ranks must find each other earlier",
                    "write publishNotReadyAddresses: true")
        return None

    def _mismatch(self, service: Service, index: int) -> str | None:
        if not service.spec.selector:
            return "it has no selector"
        labels = pod_labels(self._objects.job, index)
        for key, wanted in service.spec.selector.items():
            if key not in labels:
                return f"the pods have no label {key}"
            if labels[key] != wanted:
                return f"it wants {key}={wanted}, and the label is {labels[key]}"
        return None


def _is_file_name(name: str) -> bool:
    return name.rpartition(".")[2] in _FILE_ENDINGS
