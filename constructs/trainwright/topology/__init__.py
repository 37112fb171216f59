"""Training topologies: each is one module, registered here."""

from trainwright.topology.base import Topology
from trainwright.topology.ddp import DDP
from trainwright.topology.process import Work

AnyTopology = DDP
"""Every topology a run can name. With a second one: ``Annotated[DDP | Other, Field(discriminator="kind")]``."""

__all__ = ["DDP", "AnyTopology", "Topology", "Work"]
