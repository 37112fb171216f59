"""The command line of mpirun, as text and in an mpirun of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.handshake import Needs, Ports, Rendezvous, Success
from trainwright.rendezvous.mpi import MPI, MPIName, Mpirun, launcher_command, launcher_variables

PORTS = Ports(rendezvous=29500, control=29400, http=9400, ssh=2222)
MPIRUN = Path(sys.executable).parent / "mpirun"


def needs(processes: int = 8) -> Needs:
    return Needs(2, processes, 0, Rendezvous.MPI_HOSTFILE, Success.LAUNCHER)


def command(
    implementation: MPIName, forwarded: tuple[str, ...] = ("HOME", "HF_TOKEN"), interface: str | None = None
) -> list[str]:
    return list(launcher_command(needs(), Mpirun(MPI(implementation)), ("python", "train.py"), forwarded, interface, PORTS))


def test_open_mpi() -> None:
    assert command("openmpi", interface="eth0") == [
        "mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "--bind-to", "none", "--map-by", "slot",
        "--mca", "plm_rsh_args", "-o ConnectionAttempts=10 -p 2222", "--mca", "btl_tcp_if_include", "eth0",
        "-x", "HOME", "-x", "HF_TOKEN", "-x", "PATH", "-x", "LD_LIBRARY_PATH", "python", "train.py",
    ]  # fmt: skip


def test_intel_mpi() -> None:
    assert command("intel", interface="eth0") == [
        "mpirun", "-n", "16", "-ppn", "8", "-bootstrap-exec-args", "-o ConnectionAttempts=10 -p 2222", "-iface", "eth0",
        "-genvlist", "HOME,HF_TOKEN,I_MPI_ROOT,FI_PROVIDER_PATH,PATH,LD_LIBRARY_PATH", "python", "train.py",
    ]  # fmt: skip


def test_mpich() -> None:
    assert command("mpich") == [
        "mpirun", "-n", "16", "-ppn", "8", "-genvlist", "HOME,HF_TOKEN,PATH,LD_LIBRARY_PATH", "python", "train.py",
    ]  # fmt: skip


def test_mpich_is_told_by_its_environment_how_to_call_ssh() -> None:
    (variable,) = launcher_variables(Mpirun(MPI("mpich")), PORTS, opaque=False)
    assert (variable.name, variable.value) == ("HYDRA_LAUNCHER_EXTRA_ARGS", "-o ConnectionAttempts=10 -p 2222")
    others: list[MPIName] = ["openmpi", "intel"]
    assert not [one for name in others for one in launcher_variables(Mpirun(MPI(name)), PORTS, opaque=False)]


@pytest.mark.parametrize("implementation", ["openmpi", "intel", "mpich"])
def test_each_variable_is_named_once(implementation: MPIName) -> None:
    """Also one that the run sets and the launcher would hand on in any case."""
    words = command(implementation, ("PATH", "LD_LIBRARY_PATH", "A", "A"))
    names = words[words.index("-genvlist") + 1].split(",") if implementation != "openmpi" else [
        words[index + 1] for index, word in enumerate(words) if word == "-x"
    ]  # fmt: skip
    assert len(names) == len(set(names))


AGENT = """#!/bin/bash
# Stands in for ssh: `agent OPTIONS HOST COMMAND…` runs the command here, with the environment of a login and no other.
printf '%s\\n' "$@" > "{log}/agent.$$"
while [[ $1 == -* ]]; do [[ $1 == -[op] ]] && shift; shift; done
host=$1; shift
exec env -i HOME=/home/mpiuser PATH=/usr/local/bin:/usr/bin:/bin POD="$host" bash -c "$*"
"""
RANK = """
import json, os, sys
names = ("POD", "HOME", "PATH", "SECRET", "EMPTY", "UNNAMED")
of_mpi = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
content = json.dumps({"arguments": sys.argv[1:], **{name: os.environ.get(name) for name in (*names, *of_mpi)}})
open(os.path.join(os.environ["SAY"], os.environ["OMPI_COMM_WORLD_RANK"]), "w").write(content)
"""


@pytest.mark.slow
def test_open_mpi_starts_the_ranks_with_what_they_need(tmp_path: Path) -> None:
    """The whole command line in a real mpirun, whose ssh is a script that drops the environment as a login does."""
    agent, hostfile, rank = tmp_path / "agent", tmp_path / "hostfile", tmp_path / "rank.py"
    agent.write_text(AGENT.format(log=tmp_path))
    agent.chmod(0o755)
    rank.write_text(RANK)
    hostfile.write_text("run-worker-0.run.training.svc slots=2\nrun-worker-1.run.training.svc slots=2\n")
    said = tmp_path / "said"
    said.mkdir()
    program = (sys.executable, str(rank), "two words", "$HOME", "a\"b'c")
    words = launcher_command(needs(2), Mpirun(MPI("openmpi")), program, ("HOME", "SECRET", "EMPTY", "SAY"), None, PORTS)
    words = tuple(str(hostfile) if word == "/etc/mpi/hostfile" else word for word in words)
    # What a pod need not have: it runs as a user, and no test asks for more cores than a laptop has.
    here = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_plm_ssh_agent": str(agent)}
    secret = "p@ss 'word' \"$HOME\" \\ ;"  # noqa: S105
    environment = {
        "PATH": f"{MPIRUN.parent}:{os.environ['PATH']}", "TMPDIR": "/tmp", "HOME": "/tmp", "SECRET": secret, "EMPTY": "",
        "SAY": str(said), "UNNAMED": "stays", **here,
    }
    result = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    ranks = [json.loads((said / str(number)).read_text()) for number in range(4)]
    for number, rank_said in enumerate(ranks):
        assert rank_said["OMPI_COMM_WORLD_SIZE"] == "4"
        assert rank_said["POD"] == f"run-worker-{number // 2}.run.training.svc", "rank = node index x processes + local rank"
        assert rank_said["OMPI_COMM_WORLD_LOCAL_RANK"] == str(number % 2)
        assert rank_said["arguments"] == ["two words", "$HOME", "a\"b'c"]
        assert (rank_said["HOME"], rank_said["SECRET"], rank_said["EMPTY"]) == ("/tmp", secret, "")
        assert rank_said["PATH"] == environment["PATH"]
        assert rank_said["UNNAMED"] is None
    calls = [path.read_text() for path in tmp_path.glob("agent.*")]
    assert len(calls) == 2
    for call in calls:
        assert call.splitlines()[:4] == ["-o", "ConnectionAttempts=10", "-p", "2222"]
        assert secret not in call


@pytest.mark.slow
def test_open_mpi_ends_with_the_code_of_the_rank_that_failed(tmp_path: Path) -> None:
    """On that code the failure policy of a launcher's Job goes by."""
    program = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exit 203; else exec sleep 30; fi"
    here = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": "/tmp", "HOME": "/tmp"}
    environment = {"PATH": f"{MPIRUN.parent}:{os.environ['PATH']}", **here}
    words = ("mpirun", "-np", "2", "--host", "localhost:2", "--bind-to", "none", "bash", "-c", program)
    result = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 203
