"""A run under MPI: the launcher's pod, which waits for the hosts and runs mpirun, and the workers' pods, which run sshd."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import RANK_COMMAND
from trainwright_trainer.contract.limits import PODS_LIMIT
from trainwright_trainer.contract.spec import MPIRendezvous, Script, World
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.event_loop import in_background, in_daemon_thread
from trainwright_trainer.supervisor.interpreter import interpreter
from trainwright_trainer.supervisor.launchers.program import LauncherProgram, RemoteLauncher, launched_role
from trainwright_trainer.supervisor.launchers.remote_rank import DIAL_ENV, PARENT_MODULE
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name, mismatch
from trainwright_trainer.supervisor.pod.launcher import Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.pod import MARGIN_SECONDS
from trainwright_trainer.supervisor.run.attempt import Role

_SLOTS = re.compile(r"\bslots\s*=\s*(\d+)")
USUAL_PORT = 22
RETRY_SECONDS = 0.5
BANNER_SECONDS = 5.0
AT_ONCE = 64
"""Hosts that are tried at the same time."""
_OPTIONS = ("plm_rsh_args", "-bootstrap-exec-args")
_VARIABLES = ("HYDRA_LAUNCHER_EXTRA_ARGS", "OMPI_MCA_plm_rsh_args")
_NAMED = 20
LOOK_SECONDS = 0.2
LAUNCHER, WORKER = "launcher", "worker"


def mpi_role(setting: Setting, rendezvous: MPIRendezvous) -> Role:
    """The role of a launcher or of a worker. Raises :class:`PodError` where role, command and specification disagree."""
    role = setting.environ.get(rendezvous.role_env)
    if role not in (LAUNCHER, WORKER):
        found = "not set" if role is None else repr(role)
        raise mismatch(f"{rendezvous.role_env} is {found} in this pod; the operator sets it to {LAUNCHER} or {WORKER}")
    if not setting.program:
        sample = "mpirun …" if role == LAUNCHER else "sshd …"
        raise _invalid(f"this {role} has no command to start; its container runs `trainwright-trainer supervise -- {sample}`")
    if shutil.which(setting.program[0], path=setting.environ.get("PATH")) is None:
        raise _invalid(f"there is no {setting.program[0]} in this image; use an image with MPI and an ssh server")
    place = PodPlace(None, bind_address(setting.environ), host_name(setting.environ))
    if role == WORKER:
        return WorkerRole(setting, place)
    hosts = [host.name for host in read_hosts(Path(rendezvous.hostfile), setting.spec.world)]
    attempt = launched_role(setting, place, RemoteLauncher(setting, place, _mpirun(setting, rendezvous), _key_of_ssh()))
    others = [host for host in hosts if not place.is_called(host)]  # a launcher may hold ranks itself
    port, budget = ssh_port(setting.program, setting.environ), setting.spec.lifecycle.peer_wait_seconds
    attempt.prepare = lambda: all_reachable(others, port, place.host, budget)
    return attempt


def _key_of_ssh() -> str | None:
    """The private key that the operator made for this run, in all of its pods. It is where ssh itself looks for it.

    None where the ranks are reached by other means, so that the token which mpirun hands on has to do.
    """
    path = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "id_rsa"
    return str(path) if os.access(path, os.R_OK) else None


def _mpirun(setting: Setting, rendezvous: MPIRendezvous) -> LauncherProgram:
    known = rendezvous.host is not None
    rendezvous_env = {"MASTER_ADDR": str(rendezvous.host), "MASTER_PORT": str(rendezvous.port)} if known else {}
    return LauncherProgram(
        setting.program[0], launcher_command(setting), "let mpirun fill host by host (--map-by slot)", rendezvous_env,
    )


def launcher_command(setting: Setting) -> tuple[str, ...]:
    """mpirun's command line, with a parent of ours before each rank's command, which gets the address of this supervisor.

    Raises :class:`PodError` with INVALID_SPEC where the command does not end with the ranks' own.
    """
    own = setting.spec.work.command if isinstance(setting.spec.work, Script) else RANK_COMMAND
    given = setting.program
    if len(given) <= len(own) or given[-len(own):] != own:
        raise _invalid(
            f"the launcher's command ends with {' '.join(given[-len(own):])!r}, and the specification says that each rank runs "
            f"{' '.join(own)!r}; let the command after `supervise --` end with that"
        )
    return (*_exporting(given[:-len(own)], DIAL_ENV), *interpreter(), "-m", PARENT_MODULE, *setting.rank_command)


def _exporting(command: tuple[str, ...], name: str) -> tuple[str, ...]:
    """mpirun's command line, with one more variable that ranks get: MPICH and Intel MPI take a list, Open MPI an option each."""
    if "-genvlist" in command:
        at = command.index("-genvlist") + 1
        return (*command[:at], f"{command[at]},{name}", *command[at + 1:])
    return (command[0], "-x", name, *command[1:])


def _invalid(message: str) -> PodError:
    return PodError(ExitCode.INVALID_SPEC, "NoLauncher", message)


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    slots: int


def read_hosts(path: Path, world: World) -> tuple[Host, ...]:
    """The hosts in the order in which mpirun fills them.

    Reads what the operators write: ``host slots=8`` for Open MPI and ``host:8`` for Intel MPI and MPICH (mpi-operator,
    ``newConfigMap``). Raises :class:`PodError` with TOPOLOGY_MISMATCH where the file cannot be read or says something else than
    ``world``.
    """
    try:
        hosts = tuple(_hosts(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise mismatch(
            f"cannot read the host file {path}: {error.strerror}; the operator mounts it, where world.rendezvous.hostfile says"
        ) from None
    if len(hosts) != world.nodes:
        raise mismatch(f"{path} lists {len(hosts)} hosts and world.nodes is {world.nodes}; make the job's workers agree with it")
    for host in hosts:
        if host.slots != world.processes_per_node:
            raise mismatch(
                f"{path} gives {host.name} {host.slots} slots and world.processes_per_node is {world.processes_per_node}; "
                "make the job's slots per worker agree with it"
            )
    return hosts


def _hosts(text: str) -> Iterator[Host]:
    for line in text.splitlines():
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        name, _, rest = entry.partition(" ")
        host, colon, count = name.partition(":")
        if slots := _SLOTS.search(rest):
            yield Host(name, int(slots[1]))
        elif colon and count.isdigit():
            yield Host(host, int(count))
        else:
            yield Host(name, 1)


def ssh_port(program: Sequence[str], environ: Mapping[str, str]) -> int:
    """On which sshd listens, by the options of ssh that mpirun is given; 22 where they do not say."""
    given = [value for option, value in pairwise(program) if option in _OPTIONS]
    given += [environ[name] for name in _VARIABLES if name in environ]
    for options in given:
        for word, following in pairwise([*shlex.split(options), ""]):
            if found := re.fullmatch(r"-p\s*(\d+)|-oPort=(\d+)|Port=(\d+)", f"-p{following}" if word == "-p" else word):
                return int(next(filter(None, found.groups())))
    return USUAL_PORT


async def all_reachable(hosts: Sequence[str], port: int, own: str, seconds: float) -> None:
    """Return once each of ``hosts`` answers as an ssh server does and this pod's ``own`` name has an address.

    Raises :class:`PodError` with PEERS_NEVER_CAME, naming those that did not within so many seconds.
    """
    loop, turn = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    deadline, reasons = loop.time() + seconds, dict[str, str]()

    async def wait_for(host: str, look: partial[None]) -> None:
        while True:
            async with turn:
                try:
                    await asyncio.wait_for(in_daemon_thread(look), BANNER_SECONDS + 1)
                    reasons.pop(host, None)
                    return
                except TimeoutError:
                    reasons[host] = "no answer"
                except OSError as error:  # not resolved yet, refused, unreachable: its pod may still be pending
                    reasons[host] = error.strerror or str(error)
            if loop.time() >= deadline:
                return
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - loop.time())))

    get_log().info("waiting_for_sshd", hosts=len(hosts), port=port, seconds=seconds)
    looks = [wait_for(host, partial(_greet, host, port)) for host in hosts]
    await asyncio.gather(*looks, wait_for(own, partial(_resolve, own)))
    if reasons:
        names = ", ".join(f"{host} ({reason})" for host, reason in sorted(reasons.items())[:_NAMED])
        more = " and others" if len(reasons) > _NAMED else ""
        get_log().error("peers_never_came", missing=sorted(reasons), seconds=seconds)
        message = f"not reachable on port {port} within {seconds:g} s: {names}{more}; check that their pods are scheduled"
        raise PodError(ExitCode.PEERS_NEVER_CAME, "PeersNeverCame", message)


def _resolve(host: str) -> None:
    socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _greet(host: str, port: int) -> None:
    """The server speaks first (RFC 4253, 4.2)."""
    with socket.create_connection((host, port), timeout=BANNER_SECONDS) as connection:
        if not connection.recv(255).startswith(b"SSH"):
            raise OSError("no ssh server answers there")


class WorkerRole:
    """A :class:`Role`. Its ranks are the launcher's business: they have a line to it, and their results are in its message.

    When this pod is told to end, the parents of its ranks tell the launcher, whose ranks then all stop and save; the pod waits
    for its own, as long as its grace period allows.
    """

    def __init__(self, setting: Setting, place: PodPlace) -> None:
        self.place = place
        self._setting = setting
        self._sshd: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[PodOutcome] = asyncio.get_running_loop().create_future()
        self._told = False
        setting.measurements.forget([PODS_LIMIT])  # a restart replaces the launcher, not this pod

    attempt: str | None = None
    step: int | None = None
    committed_step: int | None = None

    async def run_to_end(self) -> PodOutcome:
        self._sshd = subprocess.Popen(
            shim.tied(self._setting.program),
            env=dict(self._setting.environ), stdin=subprocess.DEVNULL, start_new_session=True,
        )
        get_log().info("sshd_started", pid=self._sshd.pid)
        return await self._ended

    async def leave(self, decided: PodOutcome) -> None:
        pass

    def told_to_end(self, signal_name: str) -> None:
        if self._told:
            return
        self._told = True
        get_log().warning("told_to_end", signal=signal_name)
        in_background(self._wait_for_ranks(signal_name))

    def child_ended(self, pid: int, status: int) -> None:
        if self._sshd is not None and pid == self._sshd.pid and not self._told:
            self._sshd.returncode = status
            message = f"{self._setting.program[0]} ended with {status}; its output above says why"
            self._decide(PodOutcome(ExitCode.INTERNAL, Cause(kind="SSHDEnded", message=message)))

    def fail(self, cause: Cause) -> None:
        self._decide(PodOutcome(ExitCode.INTERNAL, cause))

    async def _wait_for_ranks(self, signal_name: str) -> None:
        loop, grace = asyncio.get_running_loop(), self._setting.spec.lifecycle.grace_seconds
        deadline = loop.time() + max(grace - MARGIN_SECONDS, grace / 2)
        ranks = list(_parents_of_ranks())
        for pid in ranks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        while any(_parents_of_ranks()) and loop.time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        says = "the launcher's termination message says whether they saved" if ranks else "no rank ran in it"
        message = f"{self.place.host} was told to end by {signal_name}; {says}"
        self._decide(PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, Cause(kind="ToldToEnd", message=message)))

    def _decide(self, decided: PodOutcome) -> None:
        if not self._ended.done():
            self._ended.set_result(decided)


def _parents_of_ranks() -> Iterator[int]:
    """Process ids of this pod's parents of ranks: descendants of the supervisor, however deep below sshd and MPI's daemon."""
    pending = [os.getpid()]
    while pending:
        for listing in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            for child in map(int, _read(listing).split()):
                pending.append(child)
                if PARENT_MODULE.encode() in _read(Path(f"/proc/{child}/cmdline")).split(b"\0"):
                    yield child


def _read(file: Path) -> bytes:
    """Of a process; empty once that is gone, and others beside it are not."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
