"""What every target offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from trainwright.handshake import Binding, Needs, Refusal
from trainwright.manifest.ownership import Owned
from trainwright.plan import Resolution

Tree = dict[str, Any]
"""A manifest whose leaves may be :class:`~trainwright.manifest.why.Why`."""


class Target(Protocol):
    """A kind of Kubernetes object that can carry a run."""

    name: str
    title: str
    constants: Mapping[str, str]
    """``Kind/path`` -> why the constants below it are as they are; the nearest entry answers for a line."""
    minimum_kubernetes: tuple[int, int]
    templates: Mapping[str, tuple[str, str]]
    """Role -> kind of the object and pointer of its pod template."""
    mutable: Mapping[str, tuple[str, ...]]
    """Kind -> pointers, beside labels and annotations, that may change in place and so stay out of the run's identity."""
    owned: Mapping[str, tuple[Owned, ...]]
    """Kind -> what no override may touch, beside metadata and what every pod template owns."""

    def bind(self, needs: Needs) -> Binding | Refusal:
        """Where the ranks would live, or why they cannot."""

    def lower(self, resolution: Resolution) -> list[Tree]:
        """The run's objects, in the order a reviewer reads them."""
