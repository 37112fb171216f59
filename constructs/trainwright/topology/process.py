"""What the pods of a topology run, by the rendezvous that it asked for and the binding that it got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainwright.handshake import Binding, Needs, Port, Ports, Process, Rendezvous, Role, Variable
from trainwright.rendezvous import jax, mpi, torch, tracker
from trainwright.topology.launching import handed_on, launcher_variables
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE, TRAINER_COMMAND

LINKED = frozenset({Rendezvous.STATIC, Rendezvous.DMLC_TRACKER, Rendezvous.JAX_COORDINATOR})
"""Rendezvous whose pods number themselves, so that their supervisors can hold a connection to node 0."""


class Work(NamedTuple):
    """What a topology must know of the workload to start it."""

    name: str
    """Of the run's objects."""
    ports: Ports
    command: tuple[str, ...] | None
    """An opaque command, empty for the image's entrypoint; None where the supervisor reads its work from the specification."""
    args: tuple[str, ...] = ()
    """Of the opaque command, or of the image's entrypoint."""
    program: tuple[str, ...] = ()
    """What one rank runs, where a launcher starts the ranks and not our supervisor."""
    forwarded: tuple[str, ...] = ()
    """Variables of the launcher that its ranks need too."""
    interface: str | None = None
    """Network interface for traffic between the hosts."""
    told: frozenset[str] = frozenset()
    """Of ``LAUNCHER_VARIABLES``, those that a command is to have."""
    trainer: tuple[str, ...] = TRAINER_COMMAND
    """How our program is started in a pod whose supervisor is ours."""
    supervised: bool = True
    """Whether our supervisor is around the work."""

    @property
    def supervise(self) -> tuple[str, ...]:
        return *self.trainer, "supervise"


def rank_variables(needs: Needs, binding: Binding, work: Work) -> tuple[Variable, ...]:
    """What each rank is told by its environment, besides what the controller injects and the target renders."""
    wanted: list[Variable] = []
    if work.supervised:
        wanted.append(Variable(SPEC_ENV, f"{SPEC_DIRECTORY}/{SPEC_FILE}", "where the run's specification is"))
    if work.command is None:
        pass
    elif needs.rendezvous is Rendezvous.STATIC:
        wanted += torch.torchrun_variables(needs, binding, work.name)
        wanted += (one for one in launcher_variables(needs, binding, work.name) if one.name in work.told)
    elif needs.rendezvous is Rendezvous.C10D:
        wanted.append(torch.SHARED_STORE)
    elif needs.rendezvous is Rendezvous.NONE:
        wanted.append(Variable("NNODES", str(needs.nodes), "pods that share the work", "run:/topology/nodes"))
    elif needs.rendezvous is Rendezvous.JAX_COORDINATOR:
        wanted += jax.variables(needs, binding, work.name)
    elif needs.rendezvous is Rendezvous.DMLC_TRACKER:
        wanted += tracker.variables(needs, binding, work.name)
    if mpirun := binding.part(mpi.Mpirun):
        wanted += mpi.launcher_variables(mpirun, work.ports, opaque=work.command is not None)
    return tuple(v for v in wanted if v.name not in binding.injects and v.name not in binding.renders)


def processes(needs: Needs, binding: Binding, work: Work) -> dict[str, Process]:
    """Role -> what its pods run."""
    if mpirun := binding.part(mpi.Mpirun):
        return _under_mpi(needs, mpirun, binding.roles, work)
    if binding.replaces_command:
        return _by_operator(binding, work)
    if not needs.talk:
        return {role.name: Process(work.command or (), work.args, supervised=False) for role in binding.roles}
    rendezvous = Port(binding.port_name, binding.rendezvous_port, "the first node listens here for its ranks' peers")
    control = Port("control", work.ports.control, "node 0's supervisor listens here for the others")
    linked = (control,) if needs.rendezvous in LINKED else ()
    ports = (rendezvous, *linked, _http(work.ports)) if work.supervised else (rendezvous,)
    if work.command is None:
        process = Process(work.supervise, ports=ports)
    else:
        process = _of_the_run(work, handed_on(binding, work.told), ports)
    return {role.name: process for role in binding.roles}


def _of_the_run(work: Work, told: Mapping[str, str], ports: tuple[Port, ...]) -> Process:
    """An opaque command, behind our supervisor where the run asks for it."""
    before = (*work.supervise, "--") if work.supervised else ()
    return Process(work.command or (), work.args, told, ports, supervised=work.supervised, behind=before)


def _http(ports: Ports) -> Port:
    return Port("http", ports.http, "probes and metrics")


def _by_operator(binding: Binding, work: Work) -> dict[str, Process]:
    """The operator starts its own program in every pod; the work is the first role's, which is not a pod's command."""
    first, *others = binding.roles
    driver = Process((*work.trainer, "ray") if work.command is None else work.command, work.args, supervised=False)
    return {first.name: driver} | {role.name: Process((), supervised=False) for role in others}


def _under_mpi(needs: Needs, mpirun: mpi.Mpirun, roles: Sequence[Role], work: Work) -> dict[str, Process]:
    """The launcher starts the ranks through ssh, so its workers run sshd and nothing else."""
    first, *others = roles
    ssh = Port("ssh", work.ports.ssh, "mpirun starts the ranks through it")
    sshd, http = (*mpirun.mpi.ssh.sshd, "-p", str(ssh.number)), _http(work.ports)
    if work.command is None:
        started = mpi.launcher_command(needs, mpirun, work.program, work.forwarded, work.interface, work.ports)
        launcher = Process((*work.supervise, "--", *started), ports=(http,))
        worker = Process((*work.supervise, "--", *sshd), ports=(ssh, http), capabilities=_OF_SSHD)
    else:
        launcher = _of_the_run(work, {}, (http,) if work.supervised else ())
        worker = Process(sshd, ports=(ssh,), supervised=False, ready_port=ssh.name, capabilities=_OF_SSHD)
        if mpirun.mpi.as_root:  # both ends of ssh are the image's own, and so is the port
            worker = Process(mpirun.mpi.ssh.sshd, supervised=False)
    return {first.name: launcher} | {role.name: worker for role in others}


_OF_SSHD = {
    "NET_BIND_SERVICE": "the images of MPI give sshd this file capability, and a container without it cannot start the program",
}
"""mpi-operator, build/base/Dockerfile: ``setcap CAP_NET_BIND_SERVICE=+eip``. The kernel does not start a file whose
capabilities are not all in the bounding set (capabilities(7), "Safety checking for capability-dumb binaries"). ``restricted``
allows this one."""
