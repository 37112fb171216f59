"""Rules on mpirun: what a command says to it, its hosts, the variables that it hands on, and the keys of its ssh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from trainwright.command.launchers import MPI_LAUNCHERS, Launch, launches, torch_launches
from trainwright.command.model import Command
from trainwright.command.references import references_in
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.handshake import Gang
from trainwright.manifest.labels import IDENTITY_LABEL
from trainwright.plan import Resolution
from trainwright.plan.environment import forwarded, is_stated
from trainwright.plan.security import RESTRICTED, USER_ID
from trainwright.program.peers import ASKS
from trainwright.program.slots import HOST_FILES, HOSTS, PROCESSES, Slots, knows_hosts, without_hosts
from trainwright.rendezvous.mpi import HOSTFILE, MPI, Mpirun
from trainwright.rules.program.command import Line, assigned, lines_of_ranks, scripts_in, stated_lines
from trainwright.run import CommandWorkload, WholeSecret

_AS_ROOT = frozenset({"--allow-run-as-root", "-allow-run-as-root"})
_OPEN_MPI_ONLY = _AS_ROOT | {"-x", "--mca", "-mca", "--gmca", "-gmca", "--prtemca", "--pmixmca", "--map-by", "--bind-to"}
_HYDRA_ONLY = frozenset({
    "-genv", "-genvlist", "-genvall", "-genvnone", "-env", "-envlist", "-ppn", "-perhost", "-iface", "-bootstrap",
})  # fmt: skip
"""``mpirun --help`` of Open MPI 4.1.8 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18."""

TITLES = {"openmpi": "Open MPI", "intel": "Intel MPI", "mpich": "MPICH"}


def launch_of(command: Command) -> Launch | None:
    """The first mpirun with options in a command or in a shell's script, which may name it before; None if there is none."""
    calls = [launch for launch in launches(command) if launch.name in MPI_LAUNCHERS]
    return next((launch for launch in calls if launch.options), next(iter(calls), None))


def mpirun(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Slots, hosts and variables that the command states, against those of the plan."""
    mpi = resolution.needs.part(MPI)
    if mpi is None or not isinstance(context.run.workload, CommandWorkload):
        return
    for line in lines_of_ranks(context, resolution):
        where, launch = context.locate.run(line.pointer), launch_of(line.read)
        problems = _without_mpirun(line, resolution) if launch is None else _of_launch(launch, line, resolution, mpi)
        for code, message, fix in problems:
            yield found(code, where, message, fix)


def _of_launch(launch: Launch, line: Line, resolution: Resolution, mpi: MPI) -> Problems:
    for check in (_slots, _hosts, _dialect, _variables):
        yield from check(launch, resolution, mpi)
    yield from _root(launch, line, resolution, mpi)


def _without_mpirun(line: Line, resolution: Resolution) -> Problems:
    """A launcher of torch starts ranks in its own pod, here that of the launcher. One that is told of the hosts may use ssh."""
    launched, binding = next(iter(torch_launches(line.read)), None), resolution.binding
    others = sum(role.pods for role in binding.roles if role.holds_ranks and not binding.hands_on(role))
    if launched is None or not others or _HOST_FILES & launched.names:
        return
    message = f"{launched.name} starts ranks in the launcher's pod alone, and {others} pods would wait for mpirun in vain"
    by_mpirun = f"mpirun -np {resolution.needs.world_size} --hostfile {HOSTFILE}"
    yield "TW411", message, f"write {by_mpirun} before the program in its place; or choose a topology that {launched.name} starts"


_HOST_FILES = frozenset({"--hostfile", "-H", "--deepspeed-hostfile", "--mpirun-hostfile"})
"""Of deepspeed, and of ``accelerate launch`` (src/accelerate/commands/launch.py)."""


_ROOT_BY_NAME = frozenset({"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})

Problems = Iterator[tuple[str, str, str]]
"""Code, message and fix."""


def _slots(launch: Launch, resolution: Resolution, mpi: MPI) -> Problems:
    slots, given = resolution.needs.world_size, launch.values(PROCESSES)
    if not given and mpi.implementation != "openmpi" and launch.name == "mpirun" and not launch.is_open:
        message = f"{launch.program} of {TITLES[mpi.implementation]} starts one rank unless -n says otherwise"
        yield "TW423", message, f"add -n {slots}"
    counted, each = "nodes x processes per node", resolution.needs.processes_per_node
    yield from Slots(slots, each, counted, mpi.implementation, "topology.nodes", "topology").against(launch)


def _hosts(launch: Launch, resolution: Resolution, mpi: MPI) -> Problems:
    files, hosts = launch.values(HOST_FILES), launch.values(HOSTS)
    mpirun = resolution.binding.part(Mpirun)
    known = (HOSTFILE, mpirun.plain_list if mpirun else None)
    for file in files:
        if file not in known and "$" not in file:
            yield "TW420", f"{file} is not the host file of the run, {HOSTFILE}", f"write {HOSTFILE}"
    if any("$" not in host for host in hosts):
        message = "the command names hosts, and pods are named after the run's identity, which changes with the next edit"
        yield "TW420", message, f"remove them, and write --hostfile {HOSTFILE}"
    yield from without_hosts(launch, HOSTFILE)
    if launch.name == "mpirun" and not knows_hosts(launch) and mpi.implementation == "openmpi":
        message = "without --hostfile Open MPI 5 sees only the launcher: only Open MPI 4 reads the variable that names the file"
        yield "TW423", message, f"add --hostfile {HOSTFILE}"


def _dialect(launch: Launch, resolution: Resolution, mpi: MPI) -> Problems:
    if launch.name != "mpirun":
        return
    foreign, other = (_HYDRA_ONLY, "Hydra") if mpi.implementation == "openmpi" else (_OPEN_MPI_ONLY, "Open MPI")
    for name in dict.fromkeys(option.name for option in launch.options if option.name in foreign):
        message = f"{name} is an option of {other}'s mpirun, and the run says that the image has {TITLES[mpi.implementation]}"
        yield "TW420", message, "change the option, or topology.mpi"


def _variables(launch: Launch, resolution: Resolution, mpi: MPI) -> Problems:
    """Hydra passes on the whole environment by default; Open MPI passes on nothing but OMPI_ variables (mpirun(1), "Exported
    Environment Variables"). A program that misses what the run or its pool states is another one than was meant; the plan's own
    defaults are no loss.
    """
    if mpi.implementation != "openmpi" or launch.name != "mpirun" or launch.is_open:
        return
    named = {name for name, _ in launch.hands_on()}
    stated = [variable for variable in resolution.plan.environment if is_stated(variable)]
    missing = [name for name in forwarded(stated) if name not in named and not name.startswith("OMPI_")]
    if missing:
        message = f"ranks on other pods do not get {', '.join(missing)}: mpirun passes on only what -x names"
        how = "" if launch.in_shell else ", each word as a separate element"
        yield "TW423", message, f"add {' '.join(f'-x {name}' for name in missing)}{how}"


def _root(launch: Launch, line: Line, resolution: Resolution, mpi: MPI) -> Problems:
    """Open MPI's mpirun refuses to be root's unless it is told; where nobody is root, the option speaks of another image."""
    told = not _AS_ROOT.isdisjoint(launch.names)
    as_root = mpi.as_root and not resolution.plan.security.non_root
    if as_root and mpi.implementation == "openmpi" and not told and launch.name == "mpirun" and not launch.is_open:
        by_name = {variable.name for variable in resolution.environment(resolution.binding.roles[0])}
        if not by_name | assigned(line.read).keys() >= _ROOT_BY_NAME:
            message, fix = f"{launch.program} of Open MPI does not start as root", "add --allow-run-as-root"
            if resolution.plan.security.user is None:
                message += ", and the run states no user: the plan takes the image for one made for root, with keys in /root/.ssh"
                fix += "; or write `security: {user: 1000}` for an image that has this user, as those of the MPI Operator"
            yield "TW423", message, fix
    if not mpi.as_root and told:
        message = "--allow-run-as-root does nothing: no pod runs as root, and sshd of an image made for root does not start"
        fix = (
            "remove it, and build the image as the MPI Operator's base images are: a user 1000 with the home /home/mpiuser, and "
            ".sshd_config in it"
        )
        yield "TW423", message, fix


def _waits(context: Context) -> bool:
    """Whether the command, or a script among the run's files, asks for hosts in a loop."""
    commands = [*(line.read for line in stated_lines(context)), *(command for _, command in scripts_in(context))]
    return any("loop" in simple.within and simple.program in ASKS for command in commands for simple in command.simple)


def launcher_in_gang(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A gang counts the launcher, which therefore cannot wait for its workers; its command can."""
    work = context.run.workload
    if resolution.plan.gang and resolution.needs.part(MPI) and isinstance(work, CommandWorkload) and not _waits(context):
        message = "in a gang the launcher starts beside its workers, and mpirun fails on one that does not answer yet"
        fix = "let the command wait until all hosts of the host file answer"
        if resolution.binding.gang is not Gang.OPERATOR:  # an operator's flag groups the pods of every job
            fix += ", or write `gang: false`"
        yield found("TW423", context.locate.run("/workload/command"), message, fix)


def launcher_among_hosts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A launcher that is a node is in the host file, and mpirun needs its name in DNS."""
    mpi = resolution.needs.part(MPI)
    holds = mpi is not None and mpi.launcher_holds_ranks and resolution.needs.nodes > 1
    if holds and isinstance(context.run.workload, CommandWorkload) and not _waits(context):
        message = "the launcher is in the host file, and mpirun fails where DNS does not know it yet (kubeflow/trainer#3783)"
        fix = "let the command wait until `getent hosts` finds every host of the host file, or write `launcher_is_node: false`"
        yield found("TW423", context.locate.run("/workload/command"), message, fix)


def host_file(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where mpirun reads the hosts, whoever writes them: in the launcher."""
    there = {path: f"run:/files/{escape(path)}" for path in context.run.files}
    there |= {path: source for path, (_, source) in resolution.mounts[resolution.binding.roles[0].name].items()}
    for other, source in there.items() if resolution.needs.part(MPI) else ():
        if PurePosixPath(HOSTFILE).is_relative_to(other):
            message = f"{other} would hide {HOSTFILE}, from which mpirun reads its hosts"
            yield found("TW233", context.locate.at(source), message, "use another path")


def unforwarded(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Variables that mpirun cannot pass on: it takes names, and the launcher's own values."""
    if resolution.needs.part(MPI) is None:
        return
    for number, source in enumerate(context.run.env_from):
        kind, name = ("secret", source.secret) if isinstance(source, WholeSecret) else ("config_map", source.config_map)
        message = f"ranks get no variable of {kind.replace('_', ' ')} {name}: mpirun passes variables on by name"
        fix = f"name each under env, as in `NAME: {{{kind}: {name}, key: KEY}}`"
        yield found("TW427", context.locate.run(f"/env_from/{number}"), message, fix)
    parts = {name for variable in resolution.plan.environment for name in references_in(variable.value or "")}
    for variable in resolution.plan.environment:  # those of the launcher's own role stay with it
        if is_stated(variable) and variable.field and not (variable.field in _OF_EVERY_POD and variable.name in parts):
            message = f"ranks would get {variable.field} of the launcher's pod as {variable.name}, not that of their own"
            fix = "remove it, and ask the pod in the program, by its host name or address"
            if variable.source.startswith("cluster:"):
                fix += f"; or write another value for {variable.name} under env of the run, which wins"
            yield found("TW427", context.locate.at(variable.source), message, fix)


_OF_EVERY_POD = ("metadata.namespace", f"metadata.labels['{IDENTITY_LABEL}']")
"""Fields that are the same in each, so that the launcher's own may be a part of what it hands on."""


def ssh_has_keys(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where mpirun starts ranks through ssh, the keys are mounted in the home of one user."""
    security = resolution.plan.security
    where = context.locate.at(security.sources.get("user", security.sources.get("root", "run:/security")))
    if resolution.needs.part(MPI) is None:
        return
    for role in resolution.binding.roles:
        own = resolution.security_of(role)
        if not role.further and (own.user or 0) != (security.user or 0):
            message = f"role {role.name} has user {own.user}, and ssh goes from user to user of one name and one home"
            where = context.locate.at(own.sources.get("user", own.sources.get("root", "run:/security")))
            yield found("TW428", where, message, "remove it, and write `security` of the run, which is that of both ends")
    if security.user in (0, USER_ID):
        return
    home = f"user: {USER_ID}, with the home /home/mpiuser in the image"
    if security.user:
        message = f"ssh looks for its keys in its user's home, and nobody knows where the home of user {security.user} is"
        yield found("TW428", where, message, f"write {home}; or user: 0, where the namespace's pod security allows it")
    elif security.non_root and security.level != RESTRICTED:
        message = "where the run states no user, the ssh keys are in root's home, and `root: false` refuses root"
        yield found("TW428", where, message, f"add {home}")


def keys_are_roots_own(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A file system group lets its members read the keys, and ssh refuses a key of its own user that others can read (openssh,
    authfile.c, ``sshkey_perm_ok``; mpi-operator#429).
    """
    security, mpi = resolution.plan.security, resolution.needs.part(MPI)
    if mpi is None or not mpi.as_root or security.fs_group is None:
        return
    message = f"fs_group {security.fs_group} lets a group read the keys in root's home, and ssh of root then refuses them"
    fix = f"remove fs_group; or write user: {USER_ID}, with the home /home/mpiuser in the image"
    yield found("TW428", context.locate.at(security.sources["fs_group"]), message, fix)


PLAN = (mpirun, launcher_in_gang, launcher_among_hosts, host_file, unforwarded, ssh_has_keys, keys_are_roots_own)
