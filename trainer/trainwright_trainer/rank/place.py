"""Where a process stands in the run: its rank, its machine's share of the ranks, and the cores that it may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.contract.spec import ElasticRendezvous, MPIRendezvous, World


@dataclass(frozen=True, slots=True)
class Place:
    """A rank's numbers, as torchrun and our supervisor give them in the environment."""

    rank: int
    world_size: int
    local_rank: int
    node: int

    @property
    def leads(self) -> bool:
        """Whether this rank speaks for the run: it logs and commits."""
        return self.rank == 0

    @property
    def leads_node(self) -> bool:
        """Whether this rank reports its pod's metrics."""
        return self.local_rank == 0


def place_from(environment: Mapping[str, str], world: World) -> Place:
    """Read and check the rank's environment.

    Raises:
        TopologyMismatchError: A variable is missing or no number, or the world is of another size than the specification's.
    """
    _check_meeting(environment, world)
    place = Place(*(_number(environment, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")))
    _check_size(place.world_size, world)
    if not 0 <= place.rank < place.world_size:
        raise TopologyMismatchError(f"RANK {place.rank} is not below WORLD_SIZE {place.world_size}")
    if not 0 <= place.local_rank < world.processes_per_node:
        raise TopologyMismatchError(
            f"LOCAL_RANK {place.local_rank} is not below world.processes_per_node {world.processes_per_node}"
        )
    return place


def _check_meeting(environment: Mapping[str, str], world: World) -> None:
    """Where torch finds rank 0. Horovod under mpirun needs none of it."""
    if isinstance(world.rendezvous, MPIRendezvous) and world.rendezvous.host is None:
        return
    if not environment.get("MASTER_ADDR"):
        raise TopologyMismatchError("MASTER_ADDR is not set: a rank is started by `trainwright-trainer supervise` or by torchrun")
    _number(environment, "MASTER_PORT")


def _check_size(found: int, world: World) -> None:
    rendezvous, each = world.rendezvous, world.processes_per_node
    if isinstance(rendezvous, ElasticRendezvous):
        least, most = rendezvous.min_nodes, rendezvous.max_nodes
        if found not in range(least * each, most * each + 1, each):
            raise TopologyMismatchError(
                f"WORLD_SIZE is {found}, and with {each} processes on each of {least} to {most} nodes it is a multiple of {each} "
                f"from {least * each} to {most * each}"
            )
    elif found != world.size:
        raise TopologyMismatchError(
            f"WORLD_SIZE is {found}, and world.nodes x world.processes_per_node is {world.nodes} x {each} = {world.size}"
        )


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name)
    if text is None:
        raise TopologyMismatchError(f"{name} is not set: a rank is started by `trainwright-trainer supervise` or by torchrun")
    try:
        return int(text)
    except ValueError:
        raise TopologyMismatchError(f"{name} is {text!r}, not a number") from None


_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cpus() -> int:
    """Cores this pod may use: the smaller of its affinity and its cgroup's quota (a CPU limit moves no affinity)."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores
