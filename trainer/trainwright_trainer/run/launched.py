"""Where this process stands among the ranks of its run, whatever launched them."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class World(NamedTuple):
    """This process's numbers; without a launcher it is the only one."""

    rank: int = 0
    """Of all processes of the run, from 0."""
    size: int = 1
    """How many there are."""
    local_rank: int = 0
    """Of those on this node: the number of its GPU."""
    local_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which speaks for the run."""
        return self.rank == 0


TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Rank, size, and both on the node: of torchrun, of our supervisor, and of our program on a Ray cluster."""
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""ompi/runtime/ompi_mpi_init.c"""
HYDRA = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
"""The mpirun of MPICH and Intel MPI."""
SRUN = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
LAUNCHERS = (TORCH, OPEN_MPI, HYDRA, SRUN)

NO_RAY, NO_CLUSTER, NO_NODES = 3, 4, 5
"""Exit statuses of :mod:`ray_workers`: its Python has no Ray; no cluster answered; its nodes did not come in time."""


def world(environment: Mapping[str, str]) -> World:
    """By the variables of the first launcher that has set both rank and size."""
    for rank, size, local_rank, local_size in LAUNCHERS:
        if environment.get(rank, "").isdigit() and environment.get(size, "").isdigit():
            local = environment.get(local_rank, "")
            sizes = environment.get(local_size, "")
            return World(
                int(environment[rank]), int(environment[size]), int(local) if local.isdigit() else 0,
                int(sizes) if sizes.isdigit() else 1,
            )
    return World()
