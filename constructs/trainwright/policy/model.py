"""What a platform team demands of runs: a policy in a file, or in Python."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from trainwright.model import DnsLabel, DnsSubdomain, Fact, LabelValue, Model, QualifiedName
from trainwright.run.model import RunName

PolicyCode = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{0,19}-[0-9]{1,4}$", examples=["ML-12"])]
"""Letters, a dash and a number, as GPU-1: codes without a dash are Trainwright's own."""

Line = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\n\r]+$")]

Forbidden = Literal["host-network", "host-path", "privileged", "root"]
"""What no pod may have: the node's network, a folder of the node, a privileged container, or a container that may run as root."""


class Scope(Model):
    """The runs that a policy is about: those that every stated list names. An empty one names all."""

    clusters: tuple[DnsLabel, ...] = ()
    namespaces: tuple[DnsLabel, ...] = ()
    teams: tuple[DnsLabel, ...] = ()
    queues: tuple[DnsSubdomain, ...] = ()


class GpuCap(Model):
    """How many GPUs runs may have."""

    per_run: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """One run."""
    altogether: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """All active runs that the policy is about, as if they ran at the same time."""

    @model_validator(mode="after")
    def _states_one(self) -> Self:
        if self.per_run is None and self.altogether is None:
            raise ValueError("gpus caps nothing; write per_run, altogether, or both")
        return self


class Exempt(Model):
    """A run that a policy does not hold for. The platform team grants it, so it stands in the policy and not in the run."""

    run: RunName
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    expires: date
    """The last day."""


class Demand(Model):
    """What every policy has, whatever it demands."""

    code: PolicyCode
    """Its name in findings."""
    title: Line
    """In a few words."""
    severity: Literal["error", "warning"] = "error"
    """Whether it keeps a run from being written."""
    applies_to: Scope = Field(default_factory=Scope.model_construct)
    """The runs that it is about."""
    why: Line
    """Why it matters, for the person whose run it refuses."""
    fix: Line
    """What to do instead, or whom to ask."""
    page: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=500)] | None = None
    """Where more is written about it."""
    exempt: tuple[Exempt, ...] = ()
    """Runs that it does not hold for, until a certain day."""

    @model_validator(mode="after")
    def _demands_one_thing(self) -> Self:
        stated = [name for name in DEMANDS if getattr(self, name, None)]
        if type(self) is Policy and len(stated) != 1:
            said = f"demands {' and '.join(stated)}" if stated else "demands nothing"
            raise ValueError(f"a policy demands one thing, so that its code says which, and this one {said}; "
                             f"write one of {', '.join(DEMANDS)}")  # fmt: skip
        return self


DEMANDS = ("gpus", "registries", "queues", "priorities", "labels", "forbid")


class Policy(Demand):
    """A policy in ``charts/policies/``: exactly one demand."""

    gpus: GpuCap | None = None
    """At most so many GPUs."""
    registries: tuple[Line, ...] | None = None
    """Images come from one of these registries, or path prefixes in them."""
    queues: tuple[DnsSubdomain, ...] | None = None
    """Runs are in one of these queues."""
    priorities: tuple[DnsSubdomain, ...] | None = None
    """Pods have one of these PriorityClasses."""
    labels: dict[QualifiedName, tuple[LabelValue, ...]] | None = None
    """Key that the run's `labels` have -> the values that it may have there; an empty list for any."""
    forbid: tuple[Forbidden, ...] | None = None
    """What no pod may have."""


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """A run as policies see it. What is held is seen as it is kept."""

    name: str
    team: str
    cluster: str
    namespace: str
    queue: str | None
    gpus: int
    facts: Mapping[str, Fact]
    """What the plan states: see docs/record.md."""
    manifests: tuple[dict[str, Any], ...]
    """The finished objects, overrides included."""
    pods: tuple[dict[str, Any], ...]
    """The ``spec`` of each pod template in them, by whatever field it came there, with the containers that operators add."""
    added: tuple[dict[str, Any], ...] = ()
    """Those containers of them that operators add."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Image that the run or a pool of its cluster states for a container -> where."""


class Violation(NamedTuple):
    """What a run does that a policy refuses."""

    run: str
    message: str
    field: str = ""
    """Pointer to the field of the run that says so, such as ``/image``; ``cluster:/pointer`` where the profile says so."""


class PythonPolicy(Demand):
    """A policy whose demand is a function; a module in ``charts/policies/`` exports it as POLICY."""

    check: Callable[[Sequence[PolicyRun]], Iterable[Violation]]
    """Gets all runs that the policy is about, and says what is wrong with which."""
