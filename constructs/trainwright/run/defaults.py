"""Defaults of runs: what all runs, or those of a cluster, a namespace or a team, have in common.

Their fields are the run's own, so that each has one type and one text.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, create_model

from trainwright.model import DnsLabel, Model, type_of
from trainwright.run.life import ONLY_UNKNOWN
from trainwright.run.model import Run

CHOOSERS = {"cluster": "clusters", "namespace": "namespaces", "team": "teams"}
"""Field of a run -> the group of defaults in which its value chooses; from the general to the special."""

OWN = frozenset({
    "run", "topology", "workload", "batch", "learning_rate", "roles", "prepare", "initializer", "grace", *ONLY_UNKNOWN,
    "attempt", "state", "overrides", "waivers",
})  # fmt: skip
"""What each run says itself: what is trained and by how many, what its program is like, and what was decided for it alone."""


class Layer(Model):
    """Some fields of a run, of which none is required."""

    texts_of: ClassVar[type[Model]] = Run
    """The model that has the texts of these fields."""


def _layer(name: str, text: str, *fixed: str) -> type[Layer]:
    """A model of what may be a default, without the fields that are ``fixed`` where it holds."""
    fields: dict[str, Any] = {
        field: (type_of(info), Field(default=None, json_schema_extra=_without_default))
        for field, info in Run.model_fields.items() if field not in OWN and field not in fixed
    }
    return create_model(name, __base__=Layer, __module__=__name__, __doc__=text, **fields)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


if TYPE_CHECKING:
    class OfAll(Layer): ...
    class OfCluster(Layer): ...
    class OfNamespace(Layer): ...
    class OfTeam(Layer): ...
else:
    OfAll = _layer("OfAll", "Defaults of every run.")
    OfCluster = _layer("OfCluster", "Defaults of the runs of one cluster.", "cluster")
    OfNamespace = _layer("OfNamespace", "Defaults of the runs in the namespaces of one name.", "cluster", "namespace")
    OfTeam = _layer("OfTeam", "Defaults of the runs of one team.", "cluster", "namespace", "team")


class Defaults(Model):
    """What runs have in common; what a run says itself wins, and then the more special default."""

    all: OfAll = Field(default_factory=OfAll.model_construct)
    """Of every run."""
    clusters: dict[DnsLabel, OfCluster] = Field(default_factory=dict)
    """Cluster -> defaults of its runs."""
    namespaces: dict[DnsLabel, OfNamespace] = Field(default_factory=dict)
    """Namespace -> defaults of the runs in it, on whichever cluster."""
    teams: dict[DnsLabel, OfTeam] = Field(default_factory=dict)
    """Team -> defaults of its runs."""
