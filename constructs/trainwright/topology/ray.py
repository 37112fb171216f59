"""Ray Train: a Ray cluster whose workers run torch DDP, and a driver that places the ranks."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class Ray(PodTopology):
    """``kind: ray``: Ray Train on torch."""

    title: ClassVar[str] = "Ray Train"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.RESTART_ALL, Guarantee.EXACT_RESUME, Guarantee.RESHARD})

    kind: Literal["ray"] = "ray"
    """Ray Train on torch."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Workers of the Ray cluster; its head holds no ranks."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=16)]
    """0 for a run on CPUs."""
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", examples=["2.52.0"])] | None = None
    """Release of Ray in the image; not needed for Ray's own images, whose tag states it."""

    def needs(self) -> Needs:
        """A head, and workers that join it."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=self.gpus_per_node or 1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.RAY_HEAD,
            success=Success.LAUNCHER,
            restart=RestartUnit.ALL_RANKS,
            version=self.version,
        )
