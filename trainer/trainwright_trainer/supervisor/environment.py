"""The environment of a rank: what torchrun would set, and what ties it to its supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.spec import World
from trainwright_trainer.lifecycle.messages import ATTEMPT_ENV, LINK_FD_ENV

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def rank_environment(
    inherited: Mapping[str, str], world: World, *, node: int, local_rank: int, attempt: str, specification: Path, link: int
) -> dict[str, str]:
    """The whole environment of one rank. ``link`` is the file descriptor of its end of the socket."""
    return {
        # Without a limit each rank would start a thread per core of the machine, and the ranks would fight over them.
        "OMP_NUM_THREADS": str(max(1, available_cpus() // world.processes_per_node)),
        **inherited,
        "RANK": str(node * world.processes_per_node + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_WORLD_SIZE": str(world.processes_per_node),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(world.nodes),
        "MASTER_ADDR": world.meeting.host,
        "MASTER_PORT": str(world.meeting.port),
        SPEC_ENV: str(specification),
        ATTEMPT_ENV: attempt,
        LINK_FD_ENV: str(link),
    }


def available_cpus() -> int:
    """Cores this pod may use: the smaller of its affinity and its cgroup's quota (a CPU limit moves no affinity)."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores
