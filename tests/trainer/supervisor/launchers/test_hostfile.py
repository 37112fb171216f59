"""The host file as the operators write it, and what of the launcher's command the supervisor reads and adds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.supervisor.conftest import training_work

from trainwright_trainer.contract import ExitCode, RunSpec, World
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.specification import Specification
from trainwright_trainer.supervisor.hostfile import Host, read_hosts
from trainwright_trainer.supervisor.launchers.mpi import launcher_command, mpi_part
from trainwright_trainer.supervisor.launchers.remote_rank import mpi_numbers
from trainwright_trainer.supervisor.refusal import Refusal
from trainwright_trainer.supervisor.role import Setting
from trainwright_trainer.supervisor.ssh import ssh_port

RANK = ("python", "-m", "trainwright_trainer.rank")
MPIRUN = ("mpirun", "-np", "4", "--mca", "plm_rsh_args", "-o ConnectionAttempts=10 -p 2222", "-x", "PATH")


def specification(work: dict[str, Any] | None = None) -> RunSpec:
    return RunSpec.model_validate({
        "run": "fake", "identity": "fake-1a2b3c",
        "world": {
            "nodes": 2, "processes_per_node": 2, "device": "cpu",
            "rendezvous": {
                "kind": "mpi-hostfile", "role_env": "K_MPI_JOB_ROLE", "hostfile": "/etc/mpi/hostfile", "host": "w-0",
                "port": 29500,
            },
        },
        "lifecycle": {"grace_seconds": 30}, "http_port": 9400, "work": work or training_work(Path("/state")),
    })


def setting(*program: str, work: dict[str, Any] | None = None, **environ: str) -> Setting:
    return Setting(environ, Specification(Path("/run.json"), "0", specification(work)), program, None, Measurements())


WORLD: World = specification().world


@pytest.mark.parametrize("text", [
    "w-0.run.ns.svc slots=2\nw-1.run.ns.svc slots=2\n",
    "w-0.run.ns.svc:2\nw-1.run.ns.svc:2\n",
    "# written by the operator\n\nw-0.run.ns.svc  slots = 2 max_slots=2\nw-1.run.ns.svc slots=2 # the last\n",
])
def test_hosts(tmp_path: Path, text: str) -> None:
    (tmp_path / "hostfile").write_text(text)
    assert read_hosts(tmp_path / "hostfile", WORLD) == (Host("w-0.run.ns.svc", 2), Host("w-1.run.ns.svc", 2))


@pytest.mark.parametrize(("text", "sentence"), [
    ("w-0 slots=2\n", "lists 1 hosts and world.nodes is 2"),
    ("w-0 slots=2\nw-1\n", "gives w-1 1 slots and world.processes_per_node is 2"),
    (None, "cannot read the host file"),
])
def test_hosts_that_are_not_the_worlds(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "hostfile").write_text(text)
    with pytest.raises(Refusal) as caught:
        read_hosts(tmp_path / "hostfile", WORLD)
    assert caught.value.code is ExitCode.TOPOLOGY_MISMATCH
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("program", "environ", "port"), [
    (MPIRUN, {}, 2222),
    (("mpirun", "-bootstrap-exec-args", "-o ConnectionAttempts=10 -p2200"), {}, 2200),
    (("mpirun", "--mca", "plm_rsh_args", "-o Port=2022"), {}, 2022),
    (("mpirun",), {"HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10 -p 2223"}, 2223),
    (("mpirun", "-np", "4"), {}, 22),
])
def test_the_port_of_sshd(program: tuple[str, ...], environ: dict[str, str], port: int) -> None:
    assert ssh_port(program, environ) == port


def test_a_parent_around_each_rank() -> None:
    command = launcher_command(setting(*MPIRUN, *RANK))
    assert command[:3] == ("mpirun", "-x", "TRAINWRIGHT_DIAL")
    assert command[3:3 + len(MPIRUN) - 1] == MPIRUN[1:]
    assert command[-5:] == ("-m", "trainwright_trainer.supervisor.launchers.remote_rank", command[-3], "-m", "trainwright_trainer.rank")


def test_hydra_takes_a_list_of_variables() -> None:
    command = launcher_command(setting("mpirun", "-n", "4", "-genvlist", "PATH,HOME", *RANK))
    assert command[:5] == ("mpirun", "-n", "4", "-genvlist", "PATH,HOME,TRAINWRIGHT_DIAL")


def test_a_script_is_what_ranks_run() -> None:
    work = {"kind": "script", "command": ["python", "/app/train.py", "--epochs", "3"]}
    command = launcher_command(setting(*MPIRUN, "python", "/app/train.py", "--epochs", "3", work=work))
    assert command[-4:] == ("python", "/app/train.py", "--epochs", "3")
    other = setting(*MPIRUN, "train.py", "--epochs", "4", work=work | {"command": ["train.py", "--epochs", "3"]})
    with pytest.raises(Refusal, match=r"the launcher's command ends with 'train\.py --epochs 4', and the specification says"):
        launcher_command(other)


@pytest.mark.parametrize(("environ", "program", "code", "sentence"), [
    ({}, MPIRUN, 11, "K_MPI_JOB_ROLE is not set in this pod; the operator sets it to launcher or worker"),
    ({"K_MPI_JOB_ROLE": "chief"}, MPIRUN, 11, "K_MPI_JOB_ROLE is 'chief'"),
    ({"K_MPI_JOB_ROLE": "launcher"}, (), 10, "its container runs `trainwright-trainer supervise -- mpirun …`"),
    ({"K_MPI_JOB_ROLE": "worker"}, (), 10, "its container runs `trainwright-trainer supervise -- sshd …`"),
    ({"K_MPI_JOB_ROLE": "launcher", "PATH": "/nowhere"}, MPIRUN, 10, "there is no mpirun in this image"),
])
def test_a_pod_that_has_no_part(environ: dict[str, str], program: tuple[str, ...], code: int, sentence: str) -> None:
    given, rendezvous = replace(setting(*program), environ=environ), WORLD.rendezvous
    assert rendezvous.kind == "mpi-hostfile"
    with pytest.raises(Refusal) as caught:
        mpi_part(given, rendezvous)
    assert (caught.value.code, sentence in str(caught.value)) == (code, True), str(caught.value)


@pytest.mark.parametrize(("environ", "numbers"), [
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (3, 4, 1)),
    ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}, (3, 4, 1)),
    ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, None)),
])
def test_numbers_by_the_launcher(environ: dict[str, str], numbers: tuple[int, int, int | None]) -> None:
    assert mpi_numbers(environ) == numbers
