"""JAX: one process a node, which drives all GPUs of its pod and finds the others by a coordinator."""

from typing import ClassVar, Literal

from trainwright.handshake import Needs, Rendezvous
from trainwright.topology.base import CommandTopology, NodeCount


class JAX(CommandTopology):
    """``kind: jax``: JAX over several nodes."""

    title: ClassVar[str] = "JAX"
    only_commands: ClassVar[str] = "our trainer and our supervisor have no engine for JAX"
    rendezvous: ClassVar[Rendezvous] = Rendezvous.JAX_COORDINATOR

    kind: Literal["jax"] = "jax"
    """JAX over several nodes."""
    nodes: NodeCount
    """Number of pods, each with one process; the first one runs the coordinator too."""

    def needs(self) -> Needs:
        """The coordinator counts its processes once: all start together, and start again together."""
        return super().needs()._replace(replicas_per_process=max(1, self.gpus_per_node))
