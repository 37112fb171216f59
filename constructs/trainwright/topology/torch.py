"""What every topology of torch processes states: pods, and the ranks in each; and what one states whose nodes may change."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from trainwright.handshake import Elastic, Guarantee, Needs, Rendezvous, Success
from trainwright.model import Model, quantity_field
from trainwright.topology.base import PodTopology, RankCount
from trainwright.units import Duration
from trainwright_trainer.contract.base import ListOf, PlacedError


class TorchTopology(PodTopology):
    """One process per GPU, or some per node on CPUs, in pods that are all alike."""

    rendezvous: ClassVar[Rendezvous] = Rendezvous.STATIC

    processes_per_node: RankCount | None = None
    """Only for a run on CPUs (default 1); on GPUs there is one process per GPU."""

    @model_validator(mode="after")
    def _one_process_per_gpu(self) -> Self:
        if self.gpus_per_node and self.processes_per_node not in (None, self.gpus_per_node):
            raise PlacedError("on GPUs there is one process per GPU; remove processes_per_node", "processes_per_node")
        return self

    @property
    def ranks_per_node(self) -> int:
        return self.gpus_per_node or self.processes_per_node or 1


class ElasticNodes(Model):
    """A number of nodes that may change during the run."""

    min_nodes: Annotated[int, Field(ge=1, le=4096)]
    """With fewer nodes, the run waits."""
    max_nodes: Annotated[int, Field(ge=1, le=4096)]
    """No more nodes may join."""
    last_call: Duration = quantity_field(Duration(2))
    """How long a round waits for more nodes once there are enough; longer, and nodes that start late are in the first round. Of
    torch alone it is 30s.
    """
    batch: Literal["keep", "move"] = "keep"
    """`keep` keeps the effective batch the same by changing accumulation at each size; `move` lets it follow the number of
    nodes.
    """
    metrics: ListOf[dict[str, JsonValue]] = ()
    """By which nodes are added and removed between the two sizes, as a HorizontalPodAutoscaler writes its `metrics`. Default: by
    none, so that nodes come and go with the machines alone.
    """


class ElasticTopology(TorchTopology):
    """Torch processes whose nodes may come and go."""

    elastic: ElasticNodes | None = None
    """Let nodes join and leave; `nodes` is then the number at the start."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        if self.elastic is None:
            return self
        low, high = self.elastic.min_nodes, self.elastic.max_nodes
        if not low <= self.nodes <= high:
            message = f"nodes {self.nodes} is not between min_nodes {low} and max_nodes {high}; change one of them"
            raise PlacedError(message, "nodes")
        return self

    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)
    """Of elastic runs too: ranks stay children of our supervisor, and agree on a step to save at among themselves."""

    @property
    def fewest_ranks(self) -> int:
        """Ranks of the smallest size that the run may have."""
        return (self.elastic.min_nodes if self.elastic else self.nodes) * self.ranks_per_node

    def needs(self) -> Needs:
        """Static, or elastic."""
        needs = super().needs()
        if self.elastic is None:
            return needs
        elastic = Elastic(
            self.elastic.min_nodes,
            self.elastic.max_nodes,
            keeps_batch=self.elastic.batch == "keep",
            last_call_seconds=max(1, round(self.elastic.last_call.seconds)),
            metrics=tuple(self.elastic.metrics),
        )
        return needs._replace(rendezvous=Rendezvous.C10D, success=Success.ANY_RANK, elastic=elastic)
