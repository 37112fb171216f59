"""A pod as the Job controller creates it, with the fields that the downward API offers, and how it ended."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from trainwright.operators.job.child_jobs import INDEX_KEY
from trainwright.operators.job.defaults import selected_labels
from trainwright.operators.job.pods import index_annotations, pod_host_name
from trainwright.operators.operator import uid
from trainwright.rehearsal.kinds import Job

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, no lookalikes (k8s.io/apimachinery/pkg/util/rand)."""
NODE_NAME = "rehearsal"
HOST_ADDRESS = "127.0.0.1"

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    index: int
    host_name: str
    namespace: str
    address: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    service_account: str
    uid: str

    def field(self, path: str) -> str | None:
        """Value of a ``fieldPath``; None for one that the downward API does not know. A label that is not there is empty."""
        if keyed := _KEYED.fullmatch(path):
            return (self.labels if keyed[1] == "labels" else self.annotations).get(keyed[2], "")
        return {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "metadata.uid": self.uid,
            "metadata.labels": _as_lines(self.labels),
            "metadata.annotations": _as_lines(self.annotations),
            "spec.nodeName": NODE_NAME,
            "spec.serviceAccountName": self.service_account,
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": HOST_ADDRESS,
            "status.hostIPs": HOST_ADDRESS,
        }.get(path)


def create_pod(job: Job, index: int, address: str) -> Pod:
    """A pod of one completion index, with a new name."""
    suffix = "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(5))
    template, host_name = job.spec.template, pod_host_name(job.name, index)
    return Pod(
        name=f"{host_name}-{suffix}",
        index=index,
        host_name=host_name,
        namespace=job.namespace,
        address=address,
        labels=pod_labels(job, index),
        annotations={**template.metadata.annotations, **index_annotations(index, job.spec.backoff_limit_per_index is not None)},
        service_account=template.spec.service_account_name,
        uid=str(uuid.uuid4()),
    )


def pod_labels(job: Job, index: int) -> dict[str, str]:
    """Labels of the template, and those that the API server and the controller add, which win."""
    owner = uid({"metadata": {"namespace": job.namespace, "name": job.name}})
    return {**job.spec.template.metadata.labels, **selected_labels(job.name, owner), INDEX_KEY: str(index)}


def pod_address(first: str, index: int) -> str:
    return str(IPv4Address(first) + index)


def _as_lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
