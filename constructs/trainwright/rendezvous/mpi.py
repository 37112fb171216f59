"""What targets share that start their ranks by mpirun: sshd as a user, its keys, the host file, and the launcher's share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trainwright.handshake import MPI, Role, Share
from trainwright.units import GIB, Bytes, Cpu

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


def ssh_of(mpi: MPI) -> Ssh:
    """As the image is made: for root, or for user 1000."""
    if mpi.as_root:
        sshd, folder = (ROOT_SSHD_READ_ONLY, SSHD_FOLDER) if mpi.read_only_root else (ROOT_SSHD, None)
        return Ssh(sshd, ROOT_KEYS, "in root's home: the run states no user, or root", folder)
    return Ssh(SSHD, KEYS, WHY_KEYS)


SHARE = Share(
    Cpu(1000), Bytes(2 * GIB), "mpirun starts the ranks on the workers and passes on what they print; it holds no rank itself"
)

LAUNCHER, WORKER = "launcher", "worker"


def launcher_and_workers(mpi: MPI, nodes: int, launcher_host: str, worker_host: str) -> tuple[Role, ...]:
    """A launcher, which may be the first of the nodes, and the others, if there are any."""
    holds = mpi.launcher_holds_ranks
    launcher = Role(LAUNCHER, pods=1, host=launcher_host, container="mpi", share=None if holds else SHARE)
    others = nodes - holds
    return (launcher, Role(WORKER, pods=others, host=worker_host, container="mpi")) if others else (launcher,)


OPEN_MPI: Mapping[str, str] = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE}, on the launcher",
    "OMPI_MCA_plm_rsh_args": "options of ssh, on the launcher",
    "OMPI_MCA_orte_set_default_slots": "ranks in a pod, on the launcher",
}
"""What both operators tell Open MPI 4 (mpi-operator, mpi_job_controller.go; trainer, pkg/runtime/framework/plugins/mpi)."""
