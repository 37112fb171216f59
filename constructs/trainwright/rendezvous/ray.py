"""Ray: workers join the cluster of a head, and a driver on it places the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainwright.handshake import Needs


class RayCluster(NamedTuple):
    """What a topology asks: how Ray is started, by Ray's own names."""

    version: str | None = None
    """Release of Ray in the image, as the run states it, where the operator wants to know."""
    runtime_env: Mapping[str, Any] = {}
    """What Ray brings to the pods before the driver starts."""
    head_holds_ranks: bool = False
    """Whether the head's pod is the first node."""
    start_params: Mapping[str, Mapping[str, str]] = {}
    """Role -> options of ``ray start`` there."""


def cluster_of(needs: Needs) -> RayCluster:
    """That of a topology of Ray."""
    return needs.part(RayCluster) or RayCluster()


class RayPods(NamedTuple):
    """What a target brings: pods in which the operator starts Ray, and mounts shared memory itself."""

    api_access: Mapping[str, str] = {}
    """Role -> why its pods must reach the API server, and so have a token."""
