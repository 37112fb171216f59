"""Launcher of a run under MPI: waits for the hosts, runs mpirun, and has every rank on its own line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import RANK_COMMAND
from trainwright_trainer.contract.rendezvous import MPIRendezvous
from trainwright_trainer.contract.spec import Script
from trainwright_trainer.supervisor.hostfile import read_hosts
from trainwright_trainer.supervisor.launchers.launched import PARENT_MODULE, LaunchedCrew, Launcher, launched_part
from trainwright_trainer.supervisor.launchers.remote import DIAL_ENV
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name, mismatch
from trainwright_trainer.supervisor.refusal import Refusal
from trainwright_trainer.supervisor.role import Part, Setting
from trainwright_trainer.supervisor.ssh import all_reachable, ssh_port
from trainwright_trainer.supervisor.sshd import SSHDPart

LAUNCHER, WORKER = "launcher", "worker"


def mpi_part(setting: Setting, rendezvous: MPIRendezvous) -> Part:
    """The part of a launcher or of a worker. Raises :class:`Refusal` where role, command and specification disagree."""
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
        return SSHDPart(setting, place)
    hosts = [host.name for host in read_hosts(Path(rendezvous.hostfile), setting.spec.world)]
    part = launched_part(setting, place, LaunchedCrew(setting, place, _mpirun(setting, rendezvous)))
    others = [host for host in hosts if not place.is_called(host)]  # a launcher may hold ranks itself
    port, budget = ssh_port(setting.program, setting.environ), setting.spec.lifecycle.peer_wait_seconds
    part.prepare = lambda: all_reachable(others, port, place.host, budget)
    return part


def _mpirun(setting: Setting, rendezvous: MPIRendezvous) -> Launcher:
    known = rendezvous.host is not None
    meeting = {"MASTER_ADDR": str(rendezvous.host), "MASTER_PORT": str(rendezvous.port)} if known else {}
    return Launcher(
        setting.program[0], launcher_command(setting), "let mpirun fill host by host (--map-by slot)", meeting,
    )


def launcher_command(setting: Setting) -> tuple[str, ...]:
    """The command of mpirun with a parent of ours around each rank, and with the line of this supervisor told to it.

    Raises :class:`Refusal` with INVALID_SPEC where the command does not end with the ranks' own.
    """
    own = setting.spec.work.command if isinstance(setting.spec.work, Script) else RANK_COMMAND
    given = setting.program
    if len(given) <= len(own) or given[-len(own):] != own:
        raise _invalid(
            f"the launcher's command ends with {' '.join(given[-len(own):])!r}, and the specification says that each rank runs "
            f"{' '.join(own)!r}; let the command after `supervise --` end with that"
        )
    return (*_exporting(given[:-len(own)], DIAL_ENV), sys.executable, "-m", PARENT_MODULE, *setting.rank_command)


def _exporting(command: tuple[str, ...], name: str) -> tuple[str, ...]:
    """mpirun's command line, with one more variable that ranks get: MPICH and Intel MPI take a list, Open MPI an option each."""
    if "-genvlist" in command:
        at = command.index("-genvlist") + 1
        return (*command[:at], f"{command[at]},{name}", *command[at + 1:])
    return (command[0], "-x", name, *command[1:])


def _invalid(message: str) -> Refusal:
    return Refusal(ExitCode.INVALID_SPEC, "NoLauncher", message)
