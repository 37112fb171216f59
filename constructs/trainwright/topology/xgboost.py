"""XGBoost: one process a node, histograms summed through a tracker that the first one runs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Rendezvous
from trainwright.topology.base import NodeCount, PodTopology


class XGBoost(PodTopology):
    """``kind: xgboost``: distributed XGBoost."""

    title: ClassVar[str] = "XGBoost"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "xgboost"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)
    rendezvous: ClassVar[Rendezvous] = Rendezvous.DMLC_TRACKER
    """Its tracker counts the workers once: all start together, and start again together."""

    kind: Literal["xgboost"] = "xgboost"
    """Distributed XGBoost."""
    nodes: NodeCount
    """Workers; the first one runs the tracker too."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=1)]
    """One process drives one GPU; 0 for a run on CPUs."""
