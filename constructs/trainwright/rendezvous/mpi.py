"""Ranks that mpirun starts: the MPI in the image, the list of hosts, sshd with its keys, the launcher, and its command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from trainwright.handshake import Binding, Needs, Ports, Role, Share, Variable
from trainwright.units import GIB, Bytes, Cpu
from trainwright_trainer.contract.layout import ROLE_ENV

MPIName = Literal["openmpi", "intel", "mpich"]

HOSTFILE = "/etc/mpi/hostfile"
"""Where both operators mount the list of hosts, on the launcher; for a Volcano Job the run does."""

KEYS = "/home/mpiuser/.ssh"
"""Where the operator is told to mount the keys. They are root's, and readable by others than their owner. A file system group
changes their group and no more. ssh and sshd refuse a private key that others can read only where it is their own user's file
(openssh, authfile.c, ``sshkey_perm_ok``), so user 1000 may use keys that root would be refused. Both look for them in the home
that /etc/passwd names, whatever ``HOME`` says: an image for MPI gives user 1000 the home /home/mpiuser, and a shell."""

WHY_KEYS = "in the home of user 1000; the default is root's, where sshd of a user does not look"

SSHD = ("/usr/sbin/sshd", "-D", "-e", "-f", "/home/mpiuser/.sshd_config", "-o", "PidFile=none")
"""The non-root recipe of mpi-operator (build/base), which the runtimes of Kubeflow Trainer follow (manifests/base/runtimes): its
configuration names the mounted key as host key and turns off StrictModes, which would ask for keys that are the user's own. The
process id would go into a file on the read-only root file system; nobody reads it here. Where sshd is not root it needs no
/run/sshd, no PAM and no chroot. Tried with OpenSSH 9.2 as user 1000, with such keys, on a read-only file system, without
capabilities and with no_new_privs."""

ROOT_KEYS = "/root/.ssh"
"""The operators' own default. There mpi-operator gives keys the mode that ssh asks of its own user's (mpi_job_controller.go)."""

ROOT_SSHD = (
    "/bin/sh", "-c", 'mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -D -e -o StrictModes=no "$@"', "sshd",
)
"""For an image made for root. /run/sshd and the host's keys are made at boot elsewhere, so many images lack them; both stay as
they are where they exist. StrictModes would ask for a folder that only root may write to, and a Secret's is open to all."""


SSHD_FOLDER = "/run/sshd"
"""Where sshd of root locks in what it does before a login. Nobody but root may write to it, and anybody can to a new volume."""

ROOT_SSHD_READ_ONLY = (
    "/bin/sh", "-c", f"chmod 0755 {SSHD_FOLDER} && cd {SSHD_FOLDER} && "
    '{ test -f key || ssh-keygen -q -t ed25519 -N "" -f key; } && '
    f'exec /usr/sbin/sshd -D -e -o StrictModes=no -o PidFile=none -o HostKey={SSHD_FOLDER}/key "$@"', "sshd",
)  # fmt: skip
"""The same where the image's files are read-only: the folder is a volume, and the host's key is in it. Tried with OpenSSH 9.2 as
root, on a read-only file system without host keys."""


class Ssh(NamedTuple):
    """How mpirun gets into pods: what they run, where the keys are, and why there."""

    sshd: tuple[str, ...]
    keys: str
    reason: str
    folder: str | None = None
    """What sshd writes to, where it can write to nothing else."""


class MPI(NamedTuple):
    """What a topology asks: how ranks are started under MPI."""

    implementation: MPIName
    launcher_holds_ranks: bool = False
    """Whether the launcher's pod is the first node."""
    as_root: bool = False
    """Whether sshd and mpirun are root's, as in images that name no user; otherwise they are those of user 1000. The image's own
    sshd then has the image's own port."""
    read_only_root: bool = False
    """Whether the pods cannot write to the files of their image."""

    @property
    def ssh(self) -> Ssh:
        """As the image is made: for root, or for user 1000."""
        if self.as_root:
            sshd, folder = (ROOT_SSHD_READ_ONLY, SSHD_FOLDER) if self.read_only_root else (ROOT_SSHD, None)
            return Ssh(sshd, ROOT_KEYS, "in root's home: the run states no user, or root", folder)
        return Ssh(SSHD, KEYS, WHY_KEYS)


class Mpirun(NamedTuple):
    """What a target brings: keys for every pod, and these."""

    mpi: MPI
    """As it was asked, and as the image is made; a topology itself does not know the latter."""
    role_env: str = ROLE_ENV
    """Variable by which a pod knows that it is the ``launcher`` or a ``worker``; the plan sets it where the operator does not."""
    brings_hostfile: bool = False
    """Whether the run brings the list of hosts itself, since nobody else writes it."""
    plain_list: str | None = None
    """A file with all hosts of ranks, and no slots, that the controller mounts in every pod."""


_LINE = re.compile(r"(\S*-(\d+)(?:\.\S*)?) slots=(\d+)")
_SLOTS = re.compile(r"^(\S+?)(?: +slots=|:)(\d+)\s*$", re.MULTILINE)


def slots_of(text: str) -> dict[str, int]:
    """Host -> its slots, of a list of hosts as Open MPI or MPICH reads it."""
    return {host: int(slots) for host, slots in _SLOTS.findall(text)}


def fewer_hosts(text: str, nodes: int, each: int | None) -> str | None:
    """A list of hosts with the first of them alone, of at most ``each`` slots; None for any other text."""
    lines = [_LINE.fullmatch(line) for line in text.splitlines()]
    if not lines or not all(lines):
        return None
    return "".join(
        f"{found[1]} slots={min(int(found[3]), each or int(found[3]))}\n" for found in lines if found and int(found[2]) < nodes
    )


SHARE = Share(
    Cpu(1000), Bytes(2 * GIB), "mpirun starts the ranks on the workers and passes on what they print; it holds no rank itself"
)

LAUNCHER, WORKER = "launcher", "worker"


def launcher_and_workers(
    mpi: MPI, nodes: int, launcher_host: str, worker_host: str, container: str = "mpi", worker: str = WORKER
) -> tuple[Role, ...]:
    """A launcher, which may be the first of the nodes, and the others, if there are any."""
    holds = mpi.launcher_holds_ranks
    launcher = Role(LAUNCHER, pods=1, host=launcher_host, container=container, share=None if holds else SHARE)
    others = nodes - holds
    return (launcher, Role(worker, pods=others, host=worker_host, container=container)) if others else (launcher,)


OPEN_MPI: Mapping[str, str] = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE}, on the launcher",
    "OMPI_MCA_plm_rsh_args": "options of ssh, on the launcher",
    "OMPI_MCA_orte_set_default_slots": "ranks in a pod, on the launcher",
}
"""What both operators tell Open MPI 4 (mpi-operator, mpi_job_controller.go; trainer, pkg/runtime/framework/plugins/mpi)."""

SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")
"""A login through ssh has the search paths of the system, not those of the image; the launcher's own are the image's."""

INTEL_PATHS = ("I_MPI_ROOT", "FI_PROVIDER_PATH")
"""Where Intel MPI and its libfabric are, as its ``vars.sh`` sets them."""


def launcher_command(
    needs: Needs, mpirun: Mpirun, program: Sequence[str], forwarded: Sequence[str], interface: str | None, ports: Ports
) -> tuple[str, ...]:
    """One process a slot, ranks filled in host by host, as the trainer numbers them: one token an argument, and every variable
    that ranks need by its name, never by its value.

    Tried with Open MPI 4.1.8 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18: each takes these options, reads the values of the
    named variables from its own environment, blanks and quotes included, and passes over one that is not set (Open MPI with a
    warning).
    """
    mpi = mpirun.mpi
    if mpi.implementation == "openmpi":
        return ("mpirun", *_open_mpi(needs, mpi, forwarded, interface, ports), *program)
    names = [*forwarded, *(INTEL_PATHS if mpi.implementation == "intel" else ())]
    options = ["-n", str(needs.world_size), "-ppn", str(needs.processes_per_node)]
    if mpi.implementation == "intel":
        options += ["-bootstrap-exec-args", _ssh_options(ports)]
    options += ["-f", HOSTFILE] if mpirun.brings_hostfile else []
    options += ["-iface", interface.partition(",")[0]] if interface else []  # Hydra knows one
    # Without a list Hydra hands on the launcher's whole environment, with its address and role among it.
    options += ["-genvlist", ",".join(_with_search_paths(names))]
    return ("mpirun", *options, *program)


def _open_mpi(needs: Needs, mpi: MPI, forwarded: Sequence[str], interface: str | None, ports: Ports) -> list[str]:
    """Open MPI 5 reads none of the variables by which the operator names host file and ssh options to Open MPI 4 (its ORTE)."""
    options = ["-np", str(needs.world_size), "--hostfile", HOSTFILE]
    options += ["--allow-run-as-root"] if mpi.as_root else []
    # Several threads a rank: bound to one core each, they would share it (Horovod, docs/mpi.rst).
    options += ["--bind-to", "none", "--map-by", "slot"]
    options += ["--mca", "plm_rsh_args", _ssh_options(ports)]
    if interface:
        options += ["--mca", "btl_tcp_if_include", interface]
    return options + [word for name in _with_search_paths(forwarded) for word in ("-x", name)]


def host_lines(needs: Needs, mpi: MPI, binding: Binding, name: str) -> str:
    """The list of hosts and their slots, as each MPI reads it: a launcher that holds ranks first. ``name`` is that of the run's
    objects.
    """
    line = "{host} slots={slots}\n" if mpi.implementation == "openmpi" else "{host}:{slots}\n"
    roles = [role for role in binding.roles if role.holds_ranks]
    hosts = [role.host.format(name=name, index=index) for role in roles for index in range(role.pods)]
    return "".join(line.format(host=host, slots=needs.processes_per_node) for host in hosts)


HOSTFILE_VARIABLES: Mapping[MPIName, str] = {
    "openmpi": "OMPI_MCA_orte_default_hostfile",
    "intel": "I_MPI_HYDRA_HOST_FILE",
    "mpich": "HYDRA_HOST_FILE",
}
"""By these mpirun finds the host file itself, as it does where an operator sets them (Open MPI up to 4). No rank reads them."""


def launcher_variables(mpirun: Mpirun, ports: Ports, opaque: bool) -> list[Variable]:
    """What mpirun is told by its environment, where it has no option for it, or where a command of the run's own may lack it."""
    told = []
    if mpirun.mpi.implementation == "mpich":
        # The operator sets HYDRA_LAUNCH_EXTRA_ARGS, a name that no MPICH reads.
        reason = "options of ssh for MPICH's mpirun: the port of sshd, and more than one try"
        told.append(Variable("HYDRA_LAUNCHER_EXTRA_ARGS", _ssh_options(ports), reason))
    if mpirun.brings_hostfile and opaque:
        name = HOSTFILE_VARIABLES[mpirun.mpi.implementation]
        told.append(Variable(name, HOSTFILE, "the hosts of mpirun, where its command names no file"))
    return told


def _ssh_options(ports: Ports) -> str:
    """One argument: mpirun splits it itself."""
    return f"-o ConnectionAttempts=10 -p {ports.ssh}"


def _with_search_paths(names: Sequence[str]) -> list[str]:
    """Each name once, also where the run sets one of the search paths itself."""
    return list(dict.fromkeys((*names, *SEARCH_PATHS)))
