"""A run under MPI on this machine: a launcher with a real mpirun, and workers with a real sshd, each on a loopback address."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import wait_until
from tests.programs import path_of
from tests.trainer.supervisor.pods import PodProcess, Pods

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract.layout import RANK_COMMAND, SPEC_ENV

HYDRA = "mpiexec.hydra"
FORWARDED = ("FAKE_JOURNAL", "FAKE_PLANS", "FAKE_TICK_SECONDS", SPEC_ENV, "PATH", "PYTHONPATH")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class MPIRun(Pods):
    """The launcher is pod 0 and has the address that ends with 1; worker i follows."""

    options: list[str] = field(default_factory=list)
    """More options of mpirun."""
    program: tuple[str, ...] = RANK_COMMAND

    def __post_init__(self) -> None:
        self.ssh_port = free_port()
        self.key = self.directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        (self.directory / "authorized_keys").write_bytes(self.key.with_suffix(".pub").read_bytes())
        Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd separates its privileges there
        world = self.spec.world
        addresses = [f"{self.address_base}{number + 2}" for number in range(world.nodes)]
        self.hostfile.write_text("".join(self.host_line(address, world.processes_per_node) for address in addresses))

    @staticmethod
    def host_line(address: str, slots: int) -> str:
        """Of the host file, as the operator writes it."""
        return f"{address} slots={slots}\n"

    @property
    def hostfile(self) -> Path:
        return Path(self.spec.world.rendezvous.hostfile)  # type: ignore[union-attr]

    @property
    def launcher(self) -> PodProcess:
        return next(pod for pod in self.pods if pod.node == -1)

    def start_launcher(self) -> PodProcess:
        return self._start(-1, "launcher", [*self.mpirun(), *self.program])

    @property
    def ssh_options(self) -> str:
        return (
            f"-o ConnectionAttempts=10 -p {self.ssh_port} -i {self.key} -o StrictHostKeyChecking=no -o LogLevel=ERROR "
            "-o UserKnownHostsFile=/dev/null"
        )

    def mpirun(self) -> list[str]:
        return [
            "mpirun", "-np", str(self.spec.world.size), "--hostfile", str(self.hostfile), "--bind-to", "none", "--map-by", "slot",
            "--mca", "plm_rsh_args", self.ssh_options, "--mca", "btl_tcp_if_include", "lo", *self.options,
            *(word for name in FORWARDED for word in ("-x", name)),
        ]

    def variables(self) -> dict[str, str]:
        """What mpirun reads beside its options."""
        return AS_ROOT

    def start_worker(self, number: int) -> PodProcess:
        config = self.directory / f"sshd_config-{number}"
        config.write_text(
            f"Port {self.ssh_port}\nListenAddress {self.address_base}{number + 2}\nHostKey {self.key}\n"
            f"AuthorizedKeysFile {self.directory}/authorized_keys\nStrictModes no\nUsePAM no\nPidFile none\n"
        )
        return self._start(number, "worker", [path_of("sshd"), "-D", "-e", "-f", str(config)])

    def start_all(self) -> None:
        for number in range(self.spec.world.nodes):
            self.start_worker(number)
        self.start_launcher()

    def _start(self, number: int, role: str, command: list[str]) -> PodProcess:
        address = f"{self.address_base}{number + 2}"
        variables = {
            **self.variables(), "K_MPI_JOB_ROLE": role, "HOSTNAME": address, "FAKE_TICK_SECONDS": "0.02",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        return self.launch(f"{role}{number}", number, address, variables, command)

    def wait_for_training(self) -> dict[int, int]:
        """Process ids by rank, once all ranks train."""
        wait_until(
            lambda: len(self.journal("training")) == self.spec.world.size or self.launcher.process.poll() is not None,
            "all ranks train", told=self.logs,
        )
        self.wait_for_a_step()
        return {int(str(line["rank"])): int(str(line["pid"])) for line in self.journal("started")}

    def wait_for_a_step(self) -> None:
        self.launcher.wait_for_event("supervisor_started")
        self.launcher.wait_for_a_step()


class HydraRun(MPIRun):
    """By the mpirun of MPICH, with the command and the variables of the compiler and of the operator."""

    @staticmethod
    def host_line(address: str, slots: int) -> str:
        return f"{address}:{slots}\n"

    def mpirun(self) -> list[str]:
        world = self.spec.world
        return [
            HYDRA, "-n", str(world.size), "-ppn", str(world.processes_per_node), "-iface", "lo", *self.options,
            "-genvlist", ",".join(FORWARDED),
        ]

    def variables(self) -> dict[str, str]:
        return {"HYDRA_HOST_FILE": str(self.hostfile), "HYDRA_LAUNCHER_EXTRA_ARGS": self.ssh_options}
