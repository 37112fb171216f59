"""Horovod: ranks that mpirun starts, and ring-allreduce between them."""

from typing import ClassVar, Literal

from trainwright.handshake import Guarantee
from trainwright.topology.mpi import MpirunTopology
from trainwright.topology.torch import TorchTopology


class Horovod(MpirunTopology, TorchTopology):
    """``kind: horovod``: Horovod on torch, under mpirun."""

    title: ClassVar[str] = "Horovod"
    engine: ClassVar[Literal["horovod"]] = "horovod"
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)

    kind: Literal["horovod"] = "horovod"
    """Horovod on torch."""
