"""A pod as its controller creates it, with the fields that the downward API offers."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.rehearsal.stated.kinds import PodSpec
from trainwright.rehearsal.stated.objects import Slot

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, no lookalikes (k8s.io/apimachinery/pkg/util/rand)."""
NODE_NAME = "rehearsal"
HOST_ADDRESS = "127.0.0.1"

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    slot: Slot
    namespace: str
    address: str
    uid: str

    @property
    def spec(self) -> PodSpec:
        return self.slot.spec

    @property
    def index(self) -> int:
        """Among the pods of its role."""
        return self.slot.made.index

    @property
    def host_name(self) -> str:
        return self.spec.hostname or self.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.slot.made.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.slot.made.annotations

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
            "spec.serviceAccountName": self.spec.service_account_name,
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": HOST_ADDRESS,
            "status.hostIPs": HOST_ADDRESS,
        }.get(path)


def create_pod(slot: Slot, address: str) -> Pod:
    """A pod for a slot: with a new name where its controller has the API server make one up."""
    metadata = slot.made.manifest["metadata"]
    suffix = "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(5))
    return Pod(
        name=f"{metadata['generateName']}{suffix}" if "generateName" in metadata else metadata["name"],
        slot=slot,
        namespace=metadata["namespace"],
        address=address,
        uid=str(uuid.uuid4()),
    )


def _as_lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
