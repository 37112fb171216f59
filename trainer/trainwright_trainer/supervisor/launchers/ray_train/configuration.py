"""What the driver's supervisor tells the launcher, and how the launcher says that no rank could begin."""

from collections.abc import Mapping
from typing import Any, Final

from trainwright_trainer.contract.base import Contract, Count, Seconds
from trainwright_trainer.contract.exit_codes import ExitCode

NO_CLUSTER: Final = int(ExitCode.INTERNAL)
"""Exit status: no Ray cluster answered."""
NO_NODES: Final = int(ExitCode.PEERS_NEVER_CAME)
"""Exit status: its nodes did not come in time."""


class Configuration(Contract):
    """One JSON object on the launcher's command line."""

    run: str
    nodes: Count
    processes_per_node: Count
    gpus: bool
    """One for each rank."""
    wait_seconds: Seconds
    """For the nodes to join."""
    command: tuple[str, ...]
    """What each rank runs."""
    specification: str
    """Path of the run's specification, the same in all pods."""

    @property
    def need(self) -> str:
        """What a node of the run must offer."""
        return f"{self.processes_per_node} {self._unit}"

    @property
    def _unit(self) -> str:
        return "GPU" if self.gpus else "CPU"

    def offer(self, node: Mapping[str, Any]) -> str:
        """What a node of the cluster offers, as ``ray.nodes()`` describes it."""
        return f"{node['Resources'].get(self._unit, 0):g} {self._unit}"

    def fits(self, node: Mapping[str, Any]) -> bool:
        """Whether a node can hold its part of the ranks."""
        return bool(node["Alive"] and node["Resources"].get(self._unit, 0) >= self.processes_per_node)
