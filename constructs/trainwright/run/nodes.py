"""Which nodes of a pool a run may have, where the pool alone does not say it, and beside which other pods."""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from trainwright.model import DnsLabel, LabelValue, Model, QualifiedName
from trainwright_trainer.contract.base import ListOf, PlacedError


class NodeLabel(Model):
    """A label of a node, and what must be true of it."""

    key: QualifiedName
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How its value is compared with `values`."""
    values: ListOf[LabelValue] = ()
    """One or more for `In` and `NotIn`, one whole number for `Gt` and `Lt`, none else."""

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values; add `values: [a, b]`")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise PlacedError(f"{self.operator} takes no values; remove them, or write In or NotIn", "values")
        if self.operator in ("Gt", "Lt") and not (len(self.values) == 1 and self.values[0].isdecimal()):
            raise PlacedError(f"{self.operator} takes one whole number; write it in quotes, as in `values: [\"8\"]`", "values")
        return self


class PreferredNode(Model):
    """Labels of nodes that are better than others."""

    labels: Annotated[ListOf[NodeLabel], Field(min_length=1)]
    """All of them must hold."""
    weight: Annotated[int, Field(ge=1, le=100)] = 100
    """How much better; the scheduler adds the weights up."""


Affinity = TypeVar("Affinity", "NodeAffinity", "PodAffinity")


def _says_something(stated: Affinity) -> Affinity:
    if not stated.required and not stated.preferred:
        raise ValueError("it says nothing; give required or preferred, or remove it")
    return stated


class NodeAffinity(Model):
    """Nodes of the pool that the pods may, or should, be on."""

    required: ListOf[NodeLabel] = ()
    """All of them must hold of a node."""
    preferred: ListOf[PreferredNode] = ()
    """The scheduler prefers these nodes, and takes others."""

    _speaks = model_validator(mode="after")(_says_something)


class PodLabel(NodeLabel):
    """A label of pods, and what must be true of it."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How its value is compared with `values`."""
    values: ListOf[LabelValue] = ()
    """One or more for `In` and `NotIn`, none else."""


class PodTerm(Model):
    """Pods, and the places where they are."""

    labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Label of those pods -> its value."""
    expressions: ListOf[PodLabel] = ()
    """What else must hold of their labels."""
    topology_key: QualifiedName
    """Label of nodes. Nodes with the same value of it are one place; `kubernetes.io/hostname` makes each node its own."""
    namespaces: ListOf[DnsLabel] = ()
    """Where those pods are. Default: the namespace of the run."""

    @model_validator(mode="after")
    def _names_pods(self) -> Self:
        if not self.labels and not self.expressions:
            raise ValueError("it names no pods; add labels, as in `labels: {app: inference}`, or expressions")
        return self


class PreferredPodTerm(PodTerm):
    """Places that are better or worse than others for the pods that are there."""

    weight: Annotated[int, Field(ge=1, le=100)] = 100
    """How much; the scheduler adds the weights up."""


class PodAffinity(Model):
    """Other pods whose places the pods of a run want, or avoid."""

    required: ListOf[PodTerm] = ()
    """Each decides where the pods may be."""
    preferred: ListOf[PreferredPodTerm] = ()
    """The scheduler heeds these where it can."""

    _speaks = model_validator(mode="after")(_says_something)
