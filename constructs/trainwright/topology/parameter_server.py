"""TensorFlow with parameter servers: workers compute, and servers beside them hold the variables."""

from typing import ClassVar, Literal

from trainwright.handshake import Needs, Rendezvous, Success
from trainwright.rendezvous.tensorflow import Tasks
from trainwright.topology.base import CommandTopology, GpuCount, NodeCount


class ParameterServer(CommandTopology):
    """``kind: parameter-server``: TensorFlow with parameter servers."""

    title: ClassVar[str] = "ParameterServer"
    checkpoint_format: ClassVar[str] = "tensorflow"
    rendezvous: ClassVar[Rendezvous] = Rendezvous.TF_CONFIG
    success: ClassVar[Success] = Success.CHIEF
    only_commands: ClassVar[str] = (
        "our trainer reduces gradients among workers (kind: multi-worker-mirrored), and a parameter server has no rank"
    )

    kind: Literal["parameter-server"] = "parameter-server"
    """TensorFlow with parameter servers."""
    nodes: NodeCount
    """Number of workers."""
    gpus_per_node: GpuCount
    """Of a worker; 0 for a run on CPUs."""
    parameter_servers: NodeCount = 1
    """Number of pods that hold the variables; role `ps`."""
    coordinator: bool = False
    """Whether a chief without GPUs directs the workers, as ParameterServerStrategy of TensorFlow 2 has it; role `chief`. Without
    it, worker 0 is chief.
    """

    def needs(self) -> Needs:
        """Every task knows all others from the start; the chief's end is that of the run."""
        return super().needs()._replace(of_rendezvous=Tasks(self.coordinator, self.parameter_servers))
