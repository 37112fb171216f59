"""XGBoost: one process a node, histograms summed through a tracker that the first one runs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class XGBoost(PodTopology):
    """``kind: xgboost``: distributed XGBoost."""

    title: ClassVar[str] = "XGBoost"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "xgboost"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)

    kind: Literal["xgboost"] = "xgboost"
    """Distributed XGBoost."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Workers; the first one runs the tracker too."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=1)]
    """One process drives one GPU; 0 for a run on CPUs."""

    def needs(self) -> Needs:
        """The tracker counts its workers once: all start together, and start again together."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.DMLC_TRACKER,
            success=Success.ALL_RANKS,
            restart=RestartUnit.ALL_RANKS,
        )
