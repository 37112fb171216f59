"""JAX: one process a node, which drives all GPUs of its pod and finds the others by a coordinator."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class JAX(PodTopology):
    """``kind: jax``: JAX over several nodes."""

    title: ClassVar[str] = "JAX"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
    only_commands: ClassVar[str] = "our trainer and our supervisor have no engine for JAX"

    kind: Literal["jax"] = "jax"
    """JAX over several nodes."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Number of pods, each with one process; the first one runs the coordinator too."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=16)]
    """0 for a run on CPUs."""

    def needs(self) -> Needs:
        """The coordinator counts its processes once: all start together, and start again together."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.JAX_COORDINATOR,
            success=Success.ALL_RANKS,
            restart=RestartUnit.ALL_RANKS,
            replicas_per_process=max(1, self.gpus_per_node),
        )
