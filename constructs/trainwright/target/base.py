"""What every target offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from trainwright.handshake import Binding, Needs, OperatorName, Refusal
from trainwright.manifest.provenance import Owned, Settled, Tree
from trainwright.plan import Resolution


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases of an operator, by major and minor number, whose behaviour this compiler knows."""

    first: tuple[int, int]
    last: tuple[int, int]


JOB_SET = Releases((0, 8), (0, 13))
"""Of JobSet, for each target that writes one or has one made."""


class Unshared:
    """A target whose objects are all the run's own, and whose operator relies on no other."""

    shared_kind: str | None = None
    relies_on: Mapping[OperatorName, Releases] = MappingProxyType({})

    def settle(self, resolution: Resolution, objects: list[Settled]) -> list[Settled]:
        return objects


class Target(Protocol):
    """A kind of Kubernetes object that can carry a run."""

    name: str
    title: str
    operator: OperatorName | None
    """What must be installed; None for kinds of Kubernetes itself."""
    releases: Releases | None
    """Of the operator."""
    relies_on: Mapping[OperatorName, Releases]
    """Further operators that must be installed, because that one leaves the pods to them."""
    constants: Mapping[str, str]
    """``Kind/path`` -> why the constants below it are as they are; the nearest entry answers for a line."""
    kueue: str
    """What Kueue's configuration calls this kind (``integrations.frameworks``)."""
    minimum_kubernetes: tuple[int, int]
    templates: Mapping[str, tuple[str, str]]
    """Role -> kind of the object and pointer of its pod template."""
    mutable: Mapping[str, tuple[str, ...]]
    """Kind -> pointers, beside labels and annotations, that may change in place and so stay out of the run's identity."""
    owned: Mapping[str, tuple[Owned, ...]]
    """Kind -> what no override may touch, beside metadata and what every pod template owns."""

    shared_kind: str | None
    """Kind of the object that runs of one shape share: it lives in the foundation, and is called after its content."""

    def bind(self, needs: Needs) -> Binding | Refusal:
        """Where the ranks would live, or why they cannot."""

    def lower(self, resolution: Resolution) -> list[Tree]:
        """The run's objects, in the order a reviewer reads them."""

    def settle(self, resolution: Resolution, objects: list[Settled]) -> list[Settled]:
        """The finished objects, overrides included: what is the run's own leaves a shared one, which is called after its content.

        Overrides and rules see whole pods in ``templates``, wherever their parts end up.
        """
