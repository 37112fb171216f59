"""TensorFlow's MultiWorkerMirroredStrategy: one process a node, one replica of the model on each of its GPUs."""

from typing import ClassVar, Literal

from trainwright.handshake import Guarantee, Needs, Rendezvous, Success
from trainwright.rendezvous.tensorflow import Tasks
from trainwright.topology.base import NodeCount, PodTopology


class MultiWorkerMirrored(PodTopology):
    """``kind: multi-worker-mirrored``: TensorFlow, synchronous, all-reduce between workers."""

    title: ClassVar[str] = "MultiWorkerMirrored"
    engine: ClassVar[Literal["tensorflow"]] = "tensorflow"
    checkpoint_format: ClassVar[str] = "tensorflow"
    rendezvous: ClassVar[Rendezvous] = Rendezvous.TF_CONFIG
    success: ClassVar[Success] = Success.CHIEF

    kind: Literal["multi-worker-mirrored"] = "multi-worker-mirrored"
    """TensorFlow's MultiWorkerMirroredStrategy."""
    nodes: NodeCount
    """Number of workers, including the chief."""
    chief: bool = False
    """Whether the first worker has the role of chief; without it, worker 0 is chief."""

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """Nothing links the supervisors of several pods: a worker that fails comes back alone. Its ranks agree on a save."""
        alone = frozenset({Guarantee.RESTART_ALL}) if self.nodes == 1 else frozenset()
        return frozenset({Guarantee.EXIT_CODES, Guarantee.SIGTERM_SAVE, Guarantee.EXACT_RESUME, Guarantee.RESHARD}) | alone

    def needs(self) -> Needs:
        """Every worker knows all others from the start, and all start again together."""
        return super().needs()._replace(replicas_per_process=max(1, self.gpus_per_node), of_rendezvous=Tasks(self.chief))
