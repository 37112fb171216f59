"""The environment of a rank: what torchrun would set, and what ties it to its supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.spec import World
from trainwright_trainer.observe import flight_recorder
from trainwright_trainer.rank.cpus import available_cpus
from trainwright_trainer.rank.messages import AGREEMENT_ENV, ATTEMPT_ENV, LINK_FD_ENV, RESUME_BEFORE_ENV

AGREE_BY_COLLECTIVE: Mapping[str, str] = {AGREEMENT_ENV: "collective"}
"""For ranks whose supervisors are not linked with each other."""


def rank_environment(
    inherited: Mapping[str, str], world: World, *, node: int, local_rank: int, attempt: str, specification: Path, link: int,
    meeting: Mapping[str, str] | None = None, nodes: int | None = None, resume_before: int | None = None,
) -> dict[str, str]:
    """The whole environment of one rank.

    Args:
        link: File descriptor of its end of the socket.
        meeting: Where and how the ranks find each other. Default: at ``world.meeting``.
        nodes: In an elastic run, how many there are this time.
        resume_before: See :func:`attempt_variables`.
    """
    return {
        # Without a limit each rank would start a thread per core of the machine, and the ranks would fight over them.
        "OMP_NUM_THREADS": str(max(1, available_cpus() // world.processes_per_node)),
        **(flight_recorder.environment(attempt) if world.device == "cuda" else {}),
        **inherited,
        **numbers(world.processes_per_node, nodes or world.nodes, node, local_rank),
        **(static_meeting(world) if meeting is None else meeting),
        SPEC_ENV: str(specification),
        **attempt_variables(attempt, resume_before),
        LINK_FD_ENV: str(link),
    }


def attempt_variables(attempt: str, resume_before: int | None) -> dict[str, str]:
    """Which attempt it is, and the step whose commits it passes over if there are others."""
    before = {} if resume_before is None else {RESUME_BEFORE_ENV: str(resume_before)}
    return {ATTEMPT_ENV: attempt, **before}


def numbers(processes: int, nodes: int, node: int, local_rank: int) -> dict[str, str]:
    """Who a rank is, by torchrun's names: ranks are numbered node by node, ``processes`` on each."""
    return {
        "RANK": str(node * processes + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(nodes * processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
    }


def static_meeting(world: World) -> dict[str, str]:
    """Where the ranks find rank 0, in a world where that is known beforehand."""
    return {"MASTER_ADDR": world.meeting.host, "MASTER_PORT": str(world.meeting.port)}
