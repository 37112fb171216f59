"""Rules on variables that say where ranks are: what a run or its command sets, and what its command reads, against the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from trainwright.command.launchers import Fact, launches, torch_launches
from trainwright.command.model import By
from trainwright.command.references import references_in
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Needs, Rendezvous, Role
from trainwright.operators.base import RunPod
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.program.launching import VARIABLES
from trainwright.program.told import MEETING, comes_with_devices, is_index, set_by_a_controller, taken_from_outside
from trainwright.rendezvous.mpi import MPI
from trainwright.rules.program.command import Line, assigned, line_in, line_of, lines_of_ranks, scripts_of, set_once
from trainwright.rules.program.environment import stated_for_ranks
from trainwright.rules.program.launchers import world_of
from trainwright.run import CommandWorkload, ScriptWorkload
from trainwright.topology import LAUNCHER_VARIABLES, untold
from trainwright.topology.launching import NODE_RANK
from trainwright_trainer.contract.layout import RANK_ENVIRONMENT

Locate = Callable[[str], Where]
_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "PET_NODE_RANK", "GROUP_RANK"})


def reserved(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names that the controller, the supervisor or the plan sets: setting them again breaks ranks silently. What is of a rank
    may be the command's own.
    """
    fix = f"remove it; `trainwright plan {context.run.run} --json` shows what is set, and why"
    owned = owners_of(context.run.env, resolution)
    free = _of_the_command(context, resolution) if owned else set()
    for name, owner in owned.items():
        if name not in free:
            yield found("TW403", context.locate.run(f"/env/{name}"), owner, fix)


def _of_the_command(context: Context, resolution: Resolution) -> set[str]:
    """Of a rank's variables, those that neither the controller nor the plan sets, and that a script of the command reads: a
    launcher in it tells its ranks theirs. Without a launcher the one process of each pod is a rank, and may be told which.
    """
    if not isinstance(context.run.workload, CommandWorkload):
        return set()
    lines = [line.read for line in lines_of_ranks(context, resolution)]
    commands = [*lines, *(script for line in lines for _, script in scripts_of(context, line))]
    own = {read.name for command in commands for word in command.words() for read in word.reads if read.by is By.SHELL}
    one_each = resolution.needs.rendezvous is Rendezvous.STATIC and resolution.needs.processes_per_node == 1
    if one_each and not any(launches(command) for command in commands):
        own |= {"RANK", "LOCAL_RANK", "WORLD_SIZE"}
    return (own & set(RANK_ENVIRONMENT)) - resolution.binding.injects.keys()


def set_by_hand(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A value in the run or its command is the same in every pod, and stays when the plan moves."""
    if not isinstance(context.run.workload, CommandWorkload) or resolution.needs.rendezvous not in _TORCH_OR_MPI:
        return
    for line in lines_of_ranks(context, resolution):
        yield from _against_plan(set_once(line.read), resolution, partial(_in_command, context, line))
    own = (set(LAUNCHER_VARIABLES) - MEETING) | _of_the_command(context, resolution)
    for stated in stated_for_ranks(context, resolution):
        texts = {name: value for name, value in stated.env.items() if isinstance(value, str) and "$" not in value}
        of_launchers = {name: value for name, value in texts.items() if name in own}
        yield from _against_plan(of_launchers, resolution, partial(stated.at, context))


def _in_command(context: Context, line: Line, _: str) -> Where:
    return context.locate.run(line.pointer)


_TORCH_OR_MPI = frozenset({Rendezvous.STATIC, Rendezvous.C10D, Rendezvous.MPI_HOSTFILE})


def _against_plan(values: Mapping[str, str | None], resolution: Resolution, where: Locate) -> Iterator[Finding]:
    by_mpirun = resolution.needs.rendezvous is Rendezvous.MPI_HOSTFILE
    code, world = "TW420" if by_mpirun else "TW411", world_of(resolution)
    for name, value in values.items():
        fact = VARIABLES.get(name) or (Fact.INDEX if name in _OF_A_RANK else None)
        if value is None or fact is None or (by_mpirun and fact is Fact.PORT):
            continue
        if fact is Fact.INDEX:
            if _differs(name, value, resolution.needs):
                each = "process that mpirun starts" if by_mpirun else "pod"
                yield found(code, where(name), f"{name}={value} is the same in every {each}", _fix(name, fact, by_mpirun))
        elif wanted := world.contradicts(fact, value):
            message = f"{name}={value} contradicts the plan, which has {wanted}"
            yield found(code, where(name), message, _fix(name, fact, by_mpirun))


def _differs(name: str, value: str, needs: Needs) -> bool:
    """Whether a number of a rank or a pod is another one elsewhere. The only rank of each pod is its first."""
    if name == "LOCAL_RANK":
        return needs.world_size > needs.nodes or (value != "0" and needs.nodes > 1)
    return needs.nodes > 1 or (name == "RANK" and needs.world_size > 1)


def _fix(name: str, fact: Fact, by_mpirun: bool) -> str:
    if by_mpirun and fact is Fact.INDEX:
        return "remove it: ranks read OMPI_COMM_WORLD_RANK or PMI_RANK, which mpirun sets"
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        return "remove it: the launcher sets it for each rank"
    return f"remove it: pods have {name} from the plan where the command reads it; {fact.value}" if not by_mpirun else (
        f"remove it, and pass on the launcher's own, as in -x {name}; {fact.value}"
    )


def references(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A reference in ``env`` to what comes later: the controller appends it, or the command line hands it on."""
    late = dict.fromkeys(_handed_on(resolution), "the command line hands {other} on")
    late |= dict.fromkeys(resolution.binding.injects, "the controller sets {other} after it")
    for stated in stated_for_ranks(context, resolution):
        for name, value in stated.env.items():
            for other in references_in(value) if isinstance(value, str) else ():
                if other in late:
                    message = f"{name} holds $({other}), which stays as it is: {late[other].format(other=other)}"
                    fix = f"remove it from env, and write $({other}) in the command, where all variables are known"
                    if name in LAUNCHER_VARIABLES:
                        fix = f"remove it: pods have {name} from the plan where the command reads it"
                    yield found("TW419", stated.at(context, name), message, fix)


def _handed_on(resolution: Resolution) -> set[str]:
    return {name for process in resolution.processes.values() for name in process.handed_on}


def unset(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command that reads a variable which its pods cannot have, or a run that asks for it."""
    work = context.run.workload
    if not isinstance(work, CommandWorkload) or work.launcher_variables is False:
        return
    why = untold(resolution.needs, resolution.binding) or (
        "only the operator sets the pod's number, and nothing can hand it on to an image's own entrypoint"
    )
    has = {variable.name for variable in resolution.plan.environment} | resolution.binding.injects.keys()
    has |= {name for part in context.run.roles.values() for name in part.env} | _handed_on(resolution)
    lines = lines_of_ranks(context, resolution)
    has |= {name for line in lines for name in assigned(line.read)}
    missing = [name for name in LAUNCHER_VARIABLES if name not in has]
    if work.launcher_variables and missing:
        yield _refused(context.locate.run("/workload/launcher_variables"), "the pods cannot have", missing, why)
        return
    for line in lines if not context.run.env_from else ():
        read = [name for name in missing if name in _read(line)]
        if read:
            yield _refused(context.locate.run(line.pointer), "the command reads", read, why)


def _read(line: Line) -> set[str]:
    """What it hands on to a launcher or a program. torchrun tells ranks where they meet, and words after it are theirs."""
    names = {read.name for word in line.read.words() for read in word.reads if not read.default}
    return names - MEETING if torch_launches(line.read) else names


def _refused(where: Where, what: str, names: list[str], why: str) -> Finding:
    return found("TW457", where, f"{what} {', '.join(names)}; {why}", _WHAT_PODS_HAVE)


_WHAT_PODS_HAVE = "write what this target's pods have instead (docs/launchers.md lists it), or set the variable in the command"


def left_as_text(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """References in a finished pod that nothing replaces: to variables that it does not have, or as a shell writes them."""
    said = set[tuple[Where, str]]()
    for role, container in _main_containers(resolution, pods):
        problems = [part(context, resolution, role, container) for part in (_in_env, _in_words, _in_a_script)]
        for where, message, fix in chain.from_iterable(problems):
            if (where, message) not in said:
                said.add((where, message))
                yield found("TW419", where, message, fix)


def _main_containers(resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[tuple[Role, Mapping[str, Any]]]:
    """The container that works, of each pod of a role."""
    roles = {role.name: role for role in resolution.binding.roles}
    for pod in pods:
        if pod.role in roles and (containers := pod.found.spec.get("containers")):
            yield roles[pod.role], containers[0]


Problems = Iterator[tuple[Where, str, str]]
"""Place, message and fix."""


def _in_env(context: Context, resolution: Resolution, role: Role, container: Mapping[str, Any]) -> Problems:
    """The kubelet expands them in the order of the list. What the controller appends has a message of its own."""
    sources = {variable.name: variable.source for variable in resolution.environment(role)}
    late = resolution.binding.injects.keys() | _handed_on(resolution)
    before = set[str]()
    for entry in container.get("env") or ():
        for name in references_in(str(entry.get("value") or "")):
            if name not in before | late and not _from_elsewhere(name, container):
                where = context.locate.at(sources.get(entry["name"], "run:/overrides"))
                message = f"{entry['name']} holds $({name}), which stays as it is: the pod sets no {name} before it"
                yield where, message, f"write the value out, or set {name} above it; where the text is meant, write $$({name})"
        before.add(entry["name"])


def _in_words(context: Context, resolution: Resolution, role: Role, container: Mapping[str, Any]) -> Problems:
    """In a command the kubelet knows every variable of the container; what a shell reads is the shell's."""
    line = line_in(context, resolution, role)
    process = resolution.processes[role.name]
    if line is None or (process.supervised and not process.behind) or resolution.binding.replaces_command:
        return  # ours, a script that the supervisor starts as it is written, or the operator's
    has = {entry["name"] for entry in container.get("env") or ()} | resolution.binding.injects.keys() | _handed_on(resolution)
    where = context.locate.run(line.pointer)
    first = line.read.simple[0]
    for read in (read for word in first.words for read in word.reads):
        name = read.name
        if read.by is By.KUBERNETES and name not in has and not _from_elsewhere(name, container):
            message = f"the command holds $({name}), which stays as it is: the pods have no variable {name}"
            yield where, message, f"write the value out, or set {name} under env; where the text is meant, write $$({name})"
        elif read.by is By.NOBODY and name in has:
            message = f"the command holds the text ${name}, which nothing replaces: no shell reads this command"
            yield where, message, f"write $({name}), which Kubernetes expands; or start it by a shell, as in [bash, -c, …]"


def _in_a_script(context: Context, resolution: Resolution, role: Role, container: Mapping[str, Any]) -> Problems:
    """The supervisor reads the command of a script from its specification, where Kubernetes replaces nothing."""
    line = line_of(context) if resolution.processes[role.name].supervised else None
    if line is None or not isinstance(context.run.workload, ScriptWorkload):
        return
    texts = line.read.simple[0].texts
    for number, word in enumerate(line.words):
        for name in references_in(word) if number not in texts else ():
            message = f"the command holds $({name}), which stays as it is: the supervisor starts a script as it is written"
            fix = f"let the program read {name} from its environment; or start it by a shell, as in [bash, -c, …], with ${name}"
            yield context.locate.run("/workload/command"), message, fix


def empty_in_a_shell(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """A shell puts nothing in place of a variable that another kind of object has, and this one's pods have not."""
    if resolution.needs.part(MPI) or resolution.binding.replaces_command:
        return
    work, said = context.run.workload, set[tuple[Where, str]]()
    told = set[str]() if isinstance(work, CommandWorkload) and work.launcher_variables is False else MEETING
    for role, container in _main_containers(resolution, pods):
        line = line_in(context, resolution, role)
        process = resolution.processes[role.name]
        if line is None or (process.supervised and not process.behind) or container.get("envFrom"):
            continue
        where, has = context.locate.run(line.pointer), {entry["name"] for entry in container.get("env") or ()}
        has |= resolution.binding.injects.keys() | _handed_on(resolution)
        known = set(LAUNCHER_VARIABLES) if role.further else told
        for name in sorted(taken_from_outside(line.read) - has):
            by_others = set_by_a_controller(name) and not comes_with_devices(name, container)
            if (where, name) not in said and (name in known or by_others):
                said.add((where, name))
                message = f"the command reads {name}, which no pod of role {role.name} has: a shell puts nothing in its place"
                yield found("TW457", where, message, _in_place_of(name, role, resolution, has))


def _in_place_of(name: str, role: Role, resolution: Resolution, has: set[str]) -> str:
    """What the pods have of the same."""
    needs = resolution.needs
    if name == "WORLD_SIZE":
        return f"write {needs.world_size} for the ranks of all pods, or {needs.nodes} for the number of pods"
    if is_index(name):
        numbered = role.further or not needs.talk or not untold(needs, resolution.binding)
        index = NODE_RANK if numbered else next((other for other in _NUMBERS if other in has), None)
        if index:
            return f"write ${index}, the pod's number"
    return _WHAT_PODS_HAVE


_NUMBERS = ("JAX_PROCESS_ID", "DMLC_TASK_ID", "RANK")
"""Of a pod whose ranks do not meet as torch's do."""


def _from_elsewhere(name: str, container: Mapping[str, Any]) -> bool:
    """Whether a variable may come of a whole Secret or ConfigMap, or is one of the API server's Service."""
    return bool(container.get("envFrom")) or name.startswith("KUBERNETES_")


PLAN = (reserved, set_by_hand, references, unset)
PODS = (left_as_text, empty_in_a_shell)
