"""Ray Train: a Ray cluster whose workers run torch DDP, and a driver that places the ranks."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from trainwright.handshake import Bounds, Guarantee, Needs, Rendezvous, Success
from trainwright.model import DnsLabel, Model
from trainwright.rendezvous.ray import RayCluster
from trainwright.topology.base import NodeCount, PodTopology
from trainwright_trainer.contract.base import PlacedError


class AutoscaledPods(Model):
    """How many pods a role may have."""

    min_nodes: Annotated[int, Field(strict=True, ge=0, le=4096)]
    """Fewest pods."""
    max_nodes: NodeCount
    """Most pods."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_nodes > self.max_nodes:
            raise PlacedError(f"min_nodes is {self.min_nodes}, and max_nodes {self.max_nodes}; swap them", "min_nodes")
        return self


StartParam = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=63)]


class Ray(PodTopology):
    """``kind: ray``: Ray Train on torch."""

    title: ClassVar[str] = "Ray Train"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee) - {Guarantee.EXIT_CODES, Guarantee.SIGTERM_SAVE}
    rendezvous: ClassVar[Rendezvous] = Rendezvous.RAY_HEAD
    success: ClassVar[Success] = Success.LAUNCHER

    kind: Literal["ray"] = "ray"
    """Ray Train on torch."""
    nodes: NodeCount
    """Workers of the Ray cluster; its head holds no ranks, unless it is a node itself."""
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", examples=["2.52.0"])] | None = None
    """Release of Ray in the image; not needed for Ray's own images, whose tag states it."""
    autoscaling: dict[DnsLabel, AutoscaledPods] = Field(default_factory=dict)
    """Role, such as `worker` -> between which numbers Ray's autoscaler keeps its pods. Only for a `command`, which begins with
    `nodes` workers.
    """
    head_is_node: bool = False
    """Whether the head is the first node, with its share of the GPUs, instead of an additional pod; with one node there are no
    workers. Only for a `command`.
    """
    start_params: dict[DnsLabel, dict[StartParam, str]] = Field(default_factory=dict)
    """Role, such as `head` or `worker` -> further options of `ray start` there (`rayStartParams`), such as `object-store-memory`;
    values are texts.
    """
    runtime_env: dict[str, JsonValue] = Field(default_factory=dict)
    """What Ray brings to the pods before a `command` starts, by its own names: `pip`, `working_dir`, `env_vars` and others."""

    @property
    def ranks_per_node(self) -> int:
        return self.gpus_per_node or 1

    def needs(self) -> Needs:
        """A head, and workers that join it."""
        cluster = RayCluster(self.version, self.runtime_env, self.head_is_node, self.start_params)
        autoscaled = {role: Bounds(one.min_nodes, one.max_nodes) for role, one in self.autoscaling.items()}
        return super().needs()._replace(autoscaled=autoscaled, of_rendezvous=cluster)
