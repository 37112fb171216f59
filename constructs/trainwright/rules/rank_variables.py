"""Rules on variables that say where ranks are: what a run or its command sets, and what its command reads, against the plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.command import assigned, command_of, words_in, words_of
from trainwright.rules.launchers import VARIABLES, Fact, launcher_in, planned
from trainwright.run import CommandWorkload
from trainwright.topology import LAUNCHER_VARIABLES, untold

Locate = Callable[[str], Where]
_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "PET_NODE_RANK", "GROUP_RANK"})
_BY_TORCHRUN = frozenset({"MASTER_ADDR", "MASTER_PORT"})


def set_by_hand(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A value in the run or its command is the same in every pod, and stays when the plan moves."""
    if not isinstance(context.run.workload, CommandWorkload) or resolution.needs.rendezvous not in _TORCH_OR_MPI:
        return
    by_command, text = assigned(command_of(context)), " ".join(command_of(context))
    # a name that is set twice depends on what the shell finds
    once = {name: value for name, value in by_command.items() if len(re.findall(rf"\b{name}=", text)) == 1}
    yield from _against_plan(once, resolution, lambda _: context.locate.run("/workload/command"))
    stated = {name: str(value) for name, value in context.run.env.items() if isinstance(value, str) and "$" not in value}
    of_launchers = {name: value for name, value in stated.items() if name in LAUNCHER_VARIABLES and name not in _BY_TORCHRUN}
    yield from _against_plan(of_launchers, resolution, lambda name: context.locate.run(f"/env/{name}"))


_TORCH_OR_MPI = frozenset({Rendezvous.STATIC, Rendezvous.C10D, Rendezvous.MPI_HOSTFILE})


def _against_plan(values: Mapping[str, str | None], resolution: Resolution, where: Locate) -> Iterator[Finding]:
    by_mpirun = resolution.needs.rendezvous is Rendezvous.MPI_HOSTFILE
    code, wanted = "TW420" if by_mpirun else "TW411", planned(resolution, by_sizes=False)
    for name, value in values.items():
        fact = VARIABLES.get(name) or (Fact.INDEX if name in _OF_A_RANK else None)
        if value is None or fact is None or (by_mpirun and fact is Fact.PORT):
            continue
        if fact is Fact.INDEX:
            if resolution.needs.world_size > 1 and (name in ("RANK", "LOCAL_RANK") or resolution.needs.nodes > 1):
                each = "process that mpirun starts" if by_mpirun else "pod"
                yield found(code, where(name), f"{name}={value} is the same in every {each}", _fix(name, fact, by_mpirun))
        elif fact in wanted and value != wanted[fact]:
            message = f"{name}={value} contradicts the plan, which has {wanted[fact]}"
            yield found(code, where(name), message, _fix(name, fact, by_mpirun))


def _fix(name: str, fact: Fact, by_mpirun: bool) -> str:
    if by_mpirun and fact is Fact.INDEX:
        return "remove it: ranks read OMPI_COMM_WORLD_RANK or PMI_RANK, which mpirun sets"
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        return "remove it: the launcher sets it for each rank"
    return f"remove it: pods have {name} from the plan where the command reads it; {fact.value}" if not by_mpirun else (
        f"remove it, and pass on the launcher's own, as in -x {name}; {fact.value}"
    )


def references(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A reference in ``env`` to what the controller appends to it."""
    for name, value in context.run.env.items():
        for other in re.findall(r"(?<!\$)\$\((\w+)\)", value) if isinstance(value, str) else ():
            if other in resolution.binding.injects:
                message = f"{name} holds $({other}), which stays as it is: the controller sets {other} after it"
                fix = f"remove it from env, and write $({other}) in the command, where all variables are known"
                if name in LAUNCHER_VARIABLES:
                    fix = f"remove it: pods have {name} from the plan where the command reads it"
                yield found("TW419", context.locate.run(f"/env/{name}"), message, fix)


def unset(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command that reads a variable which its pods cannot have, or a run that asks for it."""
    work = context.run.workload
    if not isinstance(work, CommandWorkload) or work.launcher_variables is False:
        return
    why = untold(resolution.needs, resolution.binding) or (
        "only the operator sets the pod's number, and nothing can hand it on to an image's own entrypoint"
    )
    has = {variable.name for variable in resolution.plan.environment} | resolution.binding.injects.keys()
    has |= assigned(command_of(context)).keys() | {name for part in context.run.roles.values() for name in part.env}
    handed_on = {name for process in resolution.processes.values() for name in process.handed_on}
    missing = [name for name in LAUNCHER_VARIABLES if name not in has | handed_on]
    if work.launcher_variables and missing:
        yield _refused(context.locate.run("/workload/launcher_variables"), "the pods cannot have", missing, why)
    elif not context.run.env_from:
        read = [name for name in missing if name in _read(context)]
        if read:
            yield _refused(context.locate.run("/workload/command"), "the command reads", read, why)


def _read(context: Context) -> set[str]:
    """What it hands on to a launcher or a program. torchrun tells ranks where they meet, and words after it are theirs."""
    text = " ".join(words_in(command_of(context)))
    names = set(re.findall(r"(?<!\$)\$(?:\(|\{)?(\w+)(?=[)}]|\b)(?!:[-=?])", text))
    return names - _BY_TORCHRUN if launcher_in(words_of(command_of(context))) else names


def _refused(where: Where, what: str, names: list[str], why: str) -> Finding:
    fix = "write what this target's pods have instead (docs/launchers.md lists it), or set the variable in the command"
    return found("TW457", where, f"{what} {', '.join(names)}; {why}", fix)


PLAN = (set_by_hand, references, unset)
