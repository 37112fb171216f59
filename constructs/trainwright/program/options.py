"""What a launcher is told of its pods, in containers that no plan has been asked about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.command.launchers import MPI_LAUNCHERS, Fact, Launch, launches, torch_launches
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.program.container import Program
from trainwright.program.launching import THIS_POD, World, as_written, options_against
from trainwright.program.slots import Slots, without_hosts


def tells_of_its_pods(program: Program) -> Iterator[Finding]:
    """Pods that train alone, one for each setting, are in order: only a launcher that counts several is asked."""
    for place, command in program.commands():
        where = program.where(place)
        if program.world is not None:
            for launch in torch_launches(command):
                yield from _of_torch(program, program.world, launch, where)
        if program.slots is not None:
            for launch in (one for one in launches(command) if one.name in MPI_LAUNCHERS):
                yield from (found(*said) for said in _in_slots(program.slots, launch, where))


def _of_torch(program: Program, world: World, launch: Launch, where: Where) -> Iterator[Finding]:
    told = world if _meets(program, launch) else world._replace(alike=1, wanted=_of_each(world))
    yield from options_against(told, launch, where, program.env)
    yield from _meeting_point(program, world, launch, where)


_ANY_NUMBER = frozenset({"--oversubscribe", "-oversubscribe", "--host", "-host", "-H", "--hostfile", "-hostfile"})
_HOST_FILE = "/etc/mpi/hostfile"
"""Of an MPIJob, on its launcher (kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go)."""


def _in_slots(slots: Slots, launch: Launch, where: Where) -> Iterator[tuple[str, Where, str, str]]:
    alone = without_hosts(launch, _HOST_FILE) if slots.total > slots.each else ()
    said = (*alone, *(() if _ANY_NUMBER & launch.names else slots.against(launch)))
    yield from ((code, where, message, fix) for code, message, fix in said if code == "TW420")


def _of_each(world: World) -> dict[Fact, tuple[str, ...]]:
    return {fact: values for fact, values in world.wanted.items() if fact is Fact.EACH}


def _meets(program: Program, launch: Launch) -> bool:
    """Whether ranks of several pods are to meet."""
    given = next(filter(None, map(launch.given, launch.launcher.options(Fact.NODES))), None)
    return "PET_NNODES" in program.has or (given is not None and given.text != "1")


def _meeting_point(program: Program, world: World, launch: Launch, where: Where) -> Iterator[Finding]:
    """torchrun's backends but the static one meet at an endpoint (torch/distributed/run.py, get_rdzv_endpoint)."""
    backend, meets = launch.given("--rdzv-backend"), world.alike > 1 and _meets(program, launch)
    for option, fact in launch.launcher.says.items() if meets else ():
        given = launch.given(option)
        value = given.resolved(program.env) if given and fact in (Fact.ADDRESS, Fact.ENDPOINT) else None
        if value and re.sub(r":\d+$", "", value) in THIS_POD:
            message = f"{as_written(option)} is {value}, and each of the {world.alike} pods that run this would wait at itself"
            fix = f"remove it: {launch.name} reads PET_ variables" if launch.launcher.reads_plan and world.tells else ""
            yield found("TW411", where, message, fix or "write the host of the first pod")
    if launch.is_open or backend is None or backend.resolved(program.env) in (None, "static") or not meets:
        return
    if "--rdzv-endpoint" not in launch.names and "PET_RDZV_ENDPOINT" not in program.has:
        message = f"with --rdzv_backend {backend.text[:40]} and no --rdzv_endpoint each pod waits at an address of its own"
        yield found("TW406", where, message, "add --rdzv_endpoint=HOST:PORT, with the host of the first pod")


RULES = (tells_of_its_pods,)
