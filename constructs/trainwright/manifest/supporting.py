"""Objects around a run that are the same on every target: who may reach its pods, how they start together, what watches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trainwright.manifest import disruption, monitoring, network_policy, scheduling
from trainwright.manifest.data import fetching
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Tree
from trainwright.plan import Resolution


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of surroundings. An object called like the run, without a hash, may change in place and outlives identities."""

    objects: Callable[[Resolution], list[Tree]]
    """None where the run needs them not."""
    constants: Mapping[str, str]
    """``Kind/path`` -> why the constants below it are as they are."""
    owned: Mapping[str, tuple[Owned, ...]] = field(default_factory=dict)
    """Kind -> what no override may touch."""
    mutable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind -> pointers that may change in place and so stay out of the run's identity."""


PARTS: tuple[Part, ...] = (
    Part(scheduling.pod_group, scheduling.CONSTANTS, scheduling.OWNED),
    Part(disruption.disruption_budget, disruption.CONSTANTS, disruption.OWNED, disruption.MUTABLE),
    Part(network_policy.network_policy, network_policy.CONSTANTS, network_policy.OWNED, network_policy.MUTABLE),
    Part(monitoring.monitoring_objects, monitoring.CONSTANTS, monitoring.OWNED),
    Part(fetching.fetch_jobs, {}),  # of a kind that targets have reasons for; its own, in data.constants, are for the foundation
)
"""In the order of the YAML, after the target's own objects."""


def surroundings(resolution: Resolution) -> list[Tree]:
    """All objects around the run."""
    return [tree for part in PARTS for tree in part.objects(resolution)]


def constants(own: Mapping[str, str]) -> dict[str, str]:
    """Those of a target, and of everything around it."""
    merged: dict[str, str] = {}
    for part in PARTS:
        merged |= part.constants
    return merged | dict(own)


def owned(own: Mapping[str, tuple[Owned, ...]], kind: str) -> tuple[Owned, ...]:
    """What no override of an object may touch, by its target or by what is around."""
    return (*own.get(kind, ()), *(entry for part in PARTS for entry in part.owned.get(kind, ())))


def mutable(own: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """What may change in place, of a target's kinds and of those around it."""
    merged: dict[str, tuple[str, ...]] = {}
    for part in PARTS:
        merged |= part.mutable
    return merged | dict(own)
