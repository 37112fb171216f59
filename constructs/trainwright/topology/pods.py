"""What topologies share: from what one needs follows what its pods run."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from trainwright.handshake import Binding, Needs, Process, Variable
from trainwright.model import Model
from trainwright.topology.process import Work, processes, rank_variables
from trainwright.topology.sharding import Sharding


class PodTopology(Model):
    """A topology whose ranks each hold the whole model, unless it says otherwise."""

    @abstractmethod
    def needs(self) -> Needs:
        """What it asks of a target."""

    def sharding(self) -> Sharding:
        """Every rank holds everything."""
        return Sharding()

    def settings(self) -> Mapping[str, Any]:
        """Nothing beside the work, for an engine without settings of its own."""
        return {}

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """The specification's place, or what a program reads that our supervisor does not start."""
        return rank_variables(self.needs(), binding, work)

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """The same process in every pod that holds ranks, and a launcher where there is one."""
        return processes(self.needs(), binding, work)
