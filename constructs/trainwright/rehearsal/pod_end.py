"""How a pod ended, as its status would say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    name: str
    exit_code: int
    message: str = ""
    """Termination message."""


@dataclass(frozen=True, slots=True)
class PodEnd:
    """A pod in phase Succeeded or Failed."""

    pod: str
    namespace: str
    index: int
    containers: tuple[ContainerEnd, ...]
    conditions: frozenset[tuple[str, str]] = frozenset()
    """Type and status."""

    @property
    def succeeded(self) -> bool:
        return all(container.exit_code == 0 for container in self.containers)

    @property
    def failed_container(self) -> ContainerEnd | None:
        return next((container for container in self.containers if container.exit_code != 0), None)
