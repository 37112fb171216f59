"""Training topologies: each is one module, registered here."""

from typing import Annotated

from pydantic import Field

from trainwright.topology.base import Topology
from trainwright.topology.ddp import DDP
from trainwright.topology.horovod import Horovod
from trainwright.topology.independent import Independent
from trainwright.topology.jax import JAX
from trainwright.topology.launching import LAUNCHER_VARIABLES, names_read, untold
from trainwright.topology.mpi import MPI
from trainwright.topology.multi_worker_mirrored import MultiWorkerMirrored
from trainwright.topology.parameter_server import ParameterServer
from trainwright.topology.process import LINKED, Work
from trainwright.topology.ray import Ray
from trainwright.topology.torch import ElasticNodes, ElasticTopology
from trainwright.topology.xgboost import XGBoost
from trainwright.topology.zero import ZeRO

AnyTopology = Annotated[
    DDP | ZeRO | Horovod | MultiWorkerMirrored | XGBoost | Ray | Independent | MPI | JAX | ParameterServer,
    Field(discriminator="kind"),
]
"""Every topology a run can name."""

__all__ = [
    "DDP", "JAX", "LAUNCHER_VARIABLES", "LINKED", "MPI", "AnyTopology", "ElasticNodes", "ElasticTopology", "Horovod",
    "Independent", "MultiWorkerMirrored", "ParameterServer", "Ray", "Topology", "Work", "XGBoost", "ZeRO", "names_read", "untold",
]
