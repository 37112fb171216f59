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


LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
"""Rank, size, and both on the node: of torchrun and our supervisor, Open MPI, Hydra (MPICH, Intel MPI), and srun."""


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
