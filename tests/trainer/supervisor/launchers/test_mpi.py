"""A run under MPI: its host file, and real launchers and workers."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.processes import is_running, own_network, wait_until
from tests.programs import needs, path_of
from tests.trainer.supervisor.conftest import training_work
from tests.trainer.supervisor.mpi_pods import HYDRA, HydraRun, MPIRun
from tests.trainer.supervisor.run.test_history import commit

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import ExitCode, RunSpec, World
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.ledger import AttemptStarted
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.launchers.mpi import Host, launcher_command, mpi_role, read_hosts, ssh_port
from trainwright_trainer.supervisor.launchers.remote_rank import mpi_numbers
from trainwright_trainer.supervisor.pod.launcher import Setting

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
    with pytest.raises(PodError) as caught:
        read_hosts(tmp_path / "hostfile", WORLD)
    assert caught.value.exit_code is ExitCode.TOPOLOGY_MISMATCH
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
    parent = "trainwright_trainer.supervisor.launchers.remote_rank"
    assert command[-5:] == ("-m", parent, command[-3], "-m", "trainwright_trainer.rank")


def test_hydra_takes_a_list_of_variables() -> None:
    command = launcher_command(setting("mpirun", "-n", "4", "-genvlist", "PATH,HOME", *RANK))
    assert command[:5] == ("mpirun", "-n", "4", "-genvlist", "PATH,HOME,TRAINWRIGHT_DIAL")


def test_a_script_is_what_ranks_run() -> None:
    work = {"kind": "script", "command": ["python", "/app/train.py", "--epochs", "3"]}
    command = launcher_command(setting(*MPIRUN, "python", "/app/train.py", "--epochs", "3", work=work))
    assert command[-4:] == ("python", "/app/train.py", "--epochs", "3")
    other = setting(*MPIRUN, "train.py", "--epochs", "4", work=work | {"command": ["train.py", "--epochs", "3"]})
    with pytest.raises(PodError, match=r"the launcher's command ends with 'train\.py --epochs 4', and the specification says"):
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
    with pytest.raises(PodError) as caught:
        mpi_role(given, rendezvous)
    assert (caught.value.exit_code, sentence in str(caught.value)) == (code, True), str(caught.value)


@pytest.mark.parametrize(("environ", "numbers"), [
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (3, 4, 1)),
    ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}, (3, 4, 1)),
    ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, None)),
])
def test_numbers_by_the_launcher(environ: dict[str, str], numbers: tuple[int, int, int | None]) -> None:
    assert mpi_numbers(environ) == numbers


TRAINER = (sys.executable, "-m", "trainwright_trainer.rank")
pytestmark = [pytest.mark.slow, needs("mpirun", "ssh", "ssh-keygen", "sshd")]
EACH_MPI = pytest.mark.parametrize("mpi", [MPIRun, HydraRun], ids=["Open MPI", "MPICH"], indirect=True)
NewMPIRun = Callable[..., MPIRun]


@pytest.fixture
def mpi(request: pytest.FixtureRequest) -> type[MPIRun]:
    """Whose mpirun starts the ranks: Open MPI's, where a test does not ask for each."""
    kind: type[MPIRun] = getattr(request, "param", MPIRun)
    if kind is HydraRun:
        path_of(HYDRA)
    return kind


@pytest.fixture
def new_run(tmp_path: Path, mpi: type[MPIRun]) -> Iterator[NewMPIRun]:
    runs: list[MPIRun] = []

    def make(nodes: int = 2, processes: int = 1, *, work: dict[str, Any] | None = None, **lifecycle: float) -> MPIRun:
        base = own_network()
        http, rendezvous = free_ports(2)
        spec = RunSpec.model_validate({
            "run": "fake", "identity": "fake-1a2b3c",
            "world": {
                "nodes": nodes, "processes_per_node": processes, "device": "cpu",
                "rendezvous": {
                    "kind": "mpi-hostfile", "role_env": "K_MPI_JOB_ROLE", "hostfile": str(tmp_path / "hostfile"),
                    "host": f"{base}2", "port": rendezvous,
                },
            },
            "lifecycle": {"grace_seconds": 30, "peer_wait_seconds": 60, **lifecycle},
            "http_port": http, "work": work or training_work(tmp_path / "state"),
        })
        runs.append(mpi(tmp_path, spec, base))
        return runs[-1]

    yield make
    for run in runs:
        run.clean_up()


def last_words(run: MPIRun) -> str:
    cause = run.launcher.message().cause
    assert cause is not None
    return cause.message


@EACH_MPI
def test_ranks_on_two_hosts_finish(new_run: NewMPIRun) -> None:
    run = new_run(nodes=2, processes=2)
    run.plans = {"*": "finish:50"}
    run.start_all()
    assert run.launcher.wait() == 0, run.logs()
    started = {int(str(line["rank"])): line["environment"] for line in run.journal("started")}
    assert sorted(started) == [0, 1, 2, 3]
    assert started[3] == {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": f"{run.address_base}2", "MASTER_PORT": str(run.spec.world.rendezvous.port),  # type: ignore[union-attr]
    }
    message = run.launcher.message()
    assert (message.code, message.step, message.committed_step) == (0, 50, 50)


@EACH_MPI
def test_a_failure_keeps_its_code(new_run: NewMPIRun) -> None:
    """mpirun itself would report 14 or something else, by whoever it hears of first. This is the last attempt that is left."""
    run = new_run(attempts_without_progress=2)
    commit(run.directory / "state", 40)
    Ledger(run.directory / "state").append(AttemptStarted(identity=run.spec.identity, attempt="first", committed_step=40))
    run.plans = {"*": "finish:100000", "1": "fail:14:5"}
    run.start_all()
    assert run.launcher.wait() == ExitCode.DIVERGED, run.logs()
    assert last_words(run) == "rank 1 fails as planned"
    assert [line["resume_before"] for line in run.journal("started")] == ["40", "40"], "it begins before the newest commit"


@EACH_MPI
def test_sigterm_to_the_launcher_saves_everywhere(new_run: NewMPIRun) -> None:
    run = new_run(processes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    run.launcher.process.send_signal(signal.SIGTERM)
    assert run.launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert len({line["tick"] for line in run.journal("stop")}) == 1
    assert len(run.journal("stop")) == 4


def test_sigterm_to_a_worker_saves_everywhere(new_run: NewMPIRun) -> None:
    run = new_run()
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    worker = run.pods[1]
    worker.process.send_signal(signal.SIGTERM)
    assert run.launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert len({line["tick"] for line in run.journal("stop")}) == 1
    assert worker.wait() == ExitCode.PREEMPTED_NOT_SAVED
    cause = worker.message().cause
    assert cause is not None
    assert "the launcher's termination message says whether they saved" in cause.message


@EACH_MPI
def test_a_worker_that_is_gone_is_a_lost_peer(new_run: NewMPIRun) -> None:
    run = new_run()
    run.plans = {"*": "finish:100000"}
    run.start_all()
    pids = run.wait_for_training()
    run.lose(run.pods[1])
    assert run.launcher.wait() == ExitCode.PEER_LOST, run.logs()
    assert re.match("rank [01] is lost", last_words(run)), "mpirun ends the other rank at once; either end may be heard first"
    for pid in pids.values():
        wait_until(lambda pid=pid: not is_running(pid), "no rank is left", 20)  # type: ignore[misc]


def test_a_rank_that_is_killed_is_named(new_run: NewMPIRun) -> None:
    run = new_run()
    run.plans = {"*": "finish:100000"}
    run.start_all()
    os.kill(run.wait_for_training()[1], signal.SIGKILL)
    assert run.launcher.wait() == ExitCode.INTERNAL, run.logs()
    assert "rank 1 was killed by SIGKILL" in last_words(run)


def answers(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=10) as connection:
        return connection.recv(255).startswith(b"SSH")
    return False


def test_hosts_that_never_come_are_named(new_run: NewMPIRun) -> None:
    run = new_run(peer_wait_seconds=3)
    wait_until(partial(answers, run.start_worker(0).address, run.ssh_port), "the server of host 0 listens")
    run.start_launcher()
    assert run.launcher.wait() == ExitCode.PEERS_NEVER_CAME, run.logs()
    assert f"{run.address_base}3 (" in last_words(run)
    assert f"{run.address_base}2 (" not in last_words(run)


def test_a_host_file_of_another_size(new_run: NewMPIRun) -> None:
    run = new_run()
    run.hostfile.write_text(f"{run.address_base}2 slots=1\n")
    run.start_launcher()
    assert run.launcher.wait() == ExitCode.TOPOLOGY_MISMATCH
    assert "lists 1 hosts and world.nodes is 2" in last_words(run)


def test_mpirun_that_cannot_start_ranks(new_run: NewMPIRun) -> None:
    run = new_run()
    run.options = ["--no-such-option"]
    run.start_all()
    assert run.launcher.wait() == ExitCode.INTERNAL, run.logs()
    assert "before any rank began" in last_words(run)


@pytest.mark.nightly
def test_torch_ranks_train_save_and_go_on(new_run: NewMPIRun, tmp_path: Path) -> None:
    """The real program of a rank, with gloo between two hosts. At every change, Horovod's ranks train so."""
    work = training_work(tmp_path / "state") | {"precision": "fp32", "duration": {"steps": 100_000}, "log_every_steps": 1}
    run = new_run(work=work, grace_seconds=60)
    run.rank = TRAINER
    run.start_all()
    run.wait_for_a_step()
    run.launcher.process.send_signal(signal.SIGTERM)
    assert run.launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    saved = run.launcher.message().committed_step
    assert saved is not None
    assert saved > 0
    run.spec = run.spec.model_copy(update={"work": RunSpec.model_validate(
        run.spec.model_dump() | {"work": work | {"duration": {"steps": saved + 5}}}).work})
    again = run.start_launcher()
    wait_until(lambda: again.process.poll() is not None, "the rest of the run")
    assert again.wait() == 0, run.logs()
    assert run.pods[-1].message().committed_step == saved + 5


@EACH_MPI
def test_a_script_has_the_whole_grace_period(new_run: NewMPIRun) -> None:
    """mpirun would kill it a second after SIGTERM. The handler writes by the system, as it may come in the middle of a print."""
    script = (
        "import os, signal, sys, time\n"
        "def end(number, frame):\n"
        "    time.sleep(4)\n"
        "    os.write(1, b'saved in 4\\n')\n"
        "    sys.exit(210)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    time.sleep(0.1)\n"
    )
    command = ["python", "-c", script]
    run = new_run(work={"kind": "script", "command": command, "protocol": True})
    run.program = tuple(command)
    run.start_all()
    wait_until(lambda: run.launcher.log_path.read_text().count("ready") == 2, "both scripts run")
    run.launcher.process.send_signal(signal.SIGTERM)
    assert run.launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert run.launcher.log_path.read_text().count("saved in 4") == 2


def test_a_script_that_fails(new_run: NewMPIRun) -> None:
    command = ["python", "-c", "import os, sys; sys.exit(3 if os.environ['RANK'] == '1' else 0)"]
    run = new_run(work={"kind": "script", "command": command})
    run.program = tuple(command)
    run.start_all()
    assert run.launcher.wait() == ExitCode.USER_FAILURE, run.logs()
    assert last_words(run) == "rank 1 exited with 3"


HAND = """
import os, sys, time
from trainwright_trainer import run
newest = run.checkpoints.newest()
print("begins at", newest.step if newest else 0, flush=True)
for n in range(newest.step + 1 if newest else 1, 10**6):
    time.sleep(0.02)
    run.step(n)
    stop = run.should_stop()
    if stop or n % 20 == 0:
        (run.checkpoints.draft() / f"rank-{run.world.rank}").write_text(str(n))
        run.checkpoints.commit(n)
    if stop:
        run.stopped()
"""


def test_a_script_that_speaks_to_the_launcher(new_run: NewMPIRun, tmp_path: Path) -> None:
    """All ranks are the launcher's: it agrees with them, and keeps their checkpoints."""
    (tmp_path / "hand.py").write_text(HAND)
    command, state = [sys.executable, str(tmp_path / "hand.py")], tmp_path / "mpi-state"
    run = new_run(work={"kind": "script", "command": command, "state_directory": str(state), "checkpoints": {}})
    run.program = tuple(command)
    run.start_all()
    wait_until(lambda: bool(list(state.glob("commits/*.json"))), "a commit")
    run.launcher.process.send_signal(signal.SIGTERM)
    assert run.launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    newest = CheckpointStore(state).records()[0]
    assert [file.name for file in newest.files] == ["rank-0", "rank-1"]
    assert {(state / str(newest.name) / file.name).read_text() for file in newest.files} == {str(newest.step)}
    assert run.launcher.message().committed_step == newest.step
