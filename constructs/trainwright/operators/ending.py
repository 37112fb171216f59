"""How pods end, and what a controller does then: the words in which the folders of operators answer.

There is no time and there are no processes here. A folder's ``ended.py`` has a function of that name, which makes a
:class:`Controller` of an object. It is told of each end once, and says what follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple


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
    """Among the pods of its role and owner."""
    containers: tuple[ContainerEnd, ...]
    conditions: frozenset[tuple[str, str]] = frozenset()
    """Type and status."""
    role: str = "node"
    owner: str = ""
    """Name of the object whose controller made it: of a JobSet's pod, the Job."""

    @property
    def succeeded(self) -> bool:
        return all(container.exit_code == 0 for container in self.containers)

    @property
    def failed_container(self) -> ContainerEnd | None:
        return next((container for container in self.containers if container.exit_code != 0), None)


Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]


@dataclass(frozen=True, slots=True)
class Match:
    """What to do with a failed pod, and which rule says so."""

    action: Action
    rule: int | None = None
    """None where no rule matches and the failure counts by default."""
    message: str = ""
    """As the Job controller words it."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The final condition of the object that carries the run. Its controller ends the pods that still run."""

    type: str
    """``Complete`` or ``Failed``, or what the operator calls them."""
    reason: str
    message: str

    @property
    def failed(self) -> bool:
        return self.type == "Failed"


@dataclass(frozen=True, slots=True)
class Replace:
    """The pod gets a successor."""

    match: Match
    failures: int
    """Of this pod that counted so far."""
    seconds: int
    """Until then: those that the policy ignores make it longer too. A pod of another index that succeeds resets it, where the
    Job counts failures of all its pods together."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Pods are removed and made again; those that still run cannot report any more."""

    counted: bool
    restarts: int
    """Those that counted so far."""
    seconds: int
    """Until the first new pod, about."""
    role: str | None = None
    """Whose; None for all."""


@dataclass(frozen=True, slots=True)
class IndexDone:
    """The pod succeeded, which is final."""


@dataclass(frozen=True, slots=True)
class IndexFailed:
    """The pod has failed and gets no successor, and the others go on."""

    match: Match


Decision = Replace | Restart | IndexDone | IndexFailed | JobEnd


class Question(NamedTuple):
    """An HTTP GET of a pod that runs."""

    role: str
    """Whose first pod is asked."""
    port: int
    path: str


class Controller(ABC):
    """Of one object. Takes each pod's end once and says what follows."""

    deadline_seconds: int | None = None
    """After which it ends the run."""

    @abstractmethod
    def record(self, end: PodEnd) -> Decision:
        """What it does now that this pod has ended."""

    def asks(self, end: PodEnd) -> Question | None:
        """What it asks before :meth:`record`, of an end that does not say by itself how the run went."""
        return None

    def heard(self, answer: str) -> None:  # noqa: B027 - most ask nothing
        """What the pod answered; empty where none did."""

    def restarted(self, restarts: int) -> JobEnd | None:
        """What it makes of containers that the kubelet has started again in their pods, so many in all."""
        return None
