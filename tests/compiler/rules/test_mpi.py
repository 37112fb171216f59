"""What a command says to mpirun, against the plan."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, command, findings
from tests.compiler.findings.page import overlay

from trainwright.rules.mpi import launch_of

MPI: Data = {"operators": {"mpi-operator": {"version": "0.8.2"}}}
GANG: Data = {
    "operators": {"mpi-operator": {"version": "0.8.2", "gang_scheduler": "volcano"}},
    "scheduling": {"gang": "volcano", "version": "1.15"},
}
RUN: Data = {"target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}}
HOSTS = ("--hostfile", "/etc/mpi/hostfile")
FORWARDED = tuple(
    word
    for name in (
        "HOME", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "NCCL_SOCKET_IFNAME", "TRAINWRIGHT_CHECKPOINT_DIRECTORY",
    )
    for word in ("-x", name)
)  # fmt: skip


def said(*words: str, mpi: str = "openmpi", cluster: Data = MPI) -> list[tuple[str, str]]:
    data = overlay(RUN, {"topology": {"mpi": mpi}}) | command(*words)
    return [(it.code, f"{it.message}; {it.fix}") for it in findings(data, cluster) if it.code in ("TW405", "TW420", "TW423")]


def test_a_command_that_says_all_is_left_alone() -> None:
    assert said("mpirun", "-np", "16", *HOSTS, *FORWARDED, "python", "train.py", "-n", "5") == []


@pytest.mark.parametrize("option", ["-np", "--np", "-n", "-c"])
def test_more_ranks_than_slots(option: str) -> None:
    ((code, text),) = said("mpirun", option, "32", *HOSTS, *FORWARDED, "python", "train.py")
    assert code == "TW420"
    assert "32 ranks, and there are 16 slots" in text
    assert "write 16, or change topology" in text


def test_fewer_ranks_than_slots() -> None:
    ((code, text),) = said("mpirun", "-np", "8", *HOSTS, *FORWARDED, "python", "train.py")
    assert code == "TW423"
    assert "8 of 16 slots stay idle" in text


def test_a_number_of_a_shell_is_not_judged() -> None:
    assert said("sh", "-c", f"mpirun -np $RANKS {' '.join((*HOSTS, *FORWARDED))} python train.py") == []


def test_it_is_found_in_a_shells_script() -> None:
    ((code, _),) = said("bash", "-c", f"exec /usr/bin/mpirun -np 32 {' '.join((*HOSTS, *FORWARDED))} python train.py")
    assert code == "TW420"


def test_another_host_file_or_hosts_by_name() -> None:
    ((code, text),) = said("mpirun", "-np", "16", "--hostfile", "/app/hosts", *FORWARDED, "python", "train.py")
    assert (code, text.endswith("write /etc/mpi/hostfile")) == ("TW420", True)
    ((code, text),) = said("mpirun", "-np", "16", "-H", "a:8,b:8", *FORWARDED, "python", "train.py")
    assert (code, "names hosts" in text) == ("TW420", True)


def test_no_host_file() -> None:
    ((code, text),) = said("mpirun", "-np", "16", *FORWARDED, "python", "train.py")
    assert (code, text.endswith("add --hostfile /etc/mpi/hostfile")) == ("TW423", True)


def test_variables_that_are_left_behind() -> None:
    ((code, text),) = said("mpirun", "-np", "16", *HOSTS, *FORWARDED[2:], "-x", "EXTRA=1", "python", "train.py")
    assert code == "TW423"
    assert "do not get HOME:" in text
    assert "add -x HOME, each word as a separate element" in text


def test_a_variable_in_one_element_with_its_option() -> None:
    assert "TW405" in dict(said("mpirun", "-np", "16", *HOSTS, "-x NCCL_DEBUG=INFO", "python", "train.py"))


@pytest.mark.parametrize(
    ("mpi", "words", "option"),
    [
        ("intel", ("-x", "HOME"), "-x"),
        ("mpich", ("--mca", "btl", "tcp"), "--mca"),
        ("openmpi", (*FORWARDED, "-genvall"), "-genvall"),
    ],
)
def test_an_option_of_another_mpi(mpi: str, words: tuple[str, ...], option: str) -> None:
    hosts = HOSTS if mpi == "openmpi" else ()
    ((code, text),) = said("mpirun", "-n", "16", *hosts, *words, "python", "train.py", mpi=mpi)
    assert code == "TW420"
    assert text.startswith(f"{option} is an option of")


def test_hydra_hands_on_the_environment_and_reads_the_operators_host_file() -> None:
    assert said("mpirun", "-n", "16", "-ppn", "8", "python", "train.py", mpi="intel") == []
    ((code, text),) = said("mpiexec.hydra", "python", "train.py", mpi="mpich")
    assert (code, text.endswith("add -n 16")) == ("TW423", True)


def test_horovodrun_writes_mpiruns_command_line_itself() -> None:
    assert said("horovodrun", "-np", "16", *HOSTS, "python", "train.py") == []
    ((code, _),) = said("horovodrun", "-np", "64", *HOSTS, "python", "train.py")
    assert code == "TW420"


def test_a_program_that_hides_mpirun_is_not_judged() -> None:
    assert said("/app/start.sh", "-np", "64") == []


def test_in_a_gang_the_launcher_does_not_wait_for_its_workers() -> None:
    ((code, text),) = said("/app/start.sh", cluster=GANG)
    assert (code, text.endswith("or write `gang: false`")) == ("TW423", True)
    assert said("bash", "-c", "until ssh a true; do sleep 1; done; exec /app/start.sh", cluster=GANG) == []
    assert [it.code for it in findings(RUN | {}, GANG) if it.code.startswith("TW42")] == []


def test_where_nothing_launches_by_mpi_nothing_is_said() -> None:
    assert [it for it in findings(command("mpirun", "-np", "64", "python", "train.py")) if it.code in ("TW420", "TW423")] == []


def test_options_end_where_the_program_begins() -> None:
    words = "mpirun --allow-run-as-root --mca btl tcp --unknown value -np 4 python -n 9"
    launch = launch_of(words.split())
    assert launch is not None
    assert launch.options == (
        ("--allow-run-as-root", ""), ("--mca", "btl"), ("--unknown", "value"), ("-np", "4"),
    )  # fmt: skip
    assert launch_of(["python", "train.py"]) is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-x", "NCCL_DEBGU=INFO"), "TW412"),
        (("-x", "NCCL_DEBGU"), "TW412"),
        (("-x", "NCCL_TIMEOUT=60"), "TW407"),
        (("-x", "NCCL_IB_TIMEOUT=99"), "TW413"),
        (("--mca", "bttl", "self"), "TW412"),
        (("-x", "WANDB_API_KEY=0123456789abcdef"), "TW409"),
    ],
)
def test_variables_on_the_command_line_are_read(words: tuple[str, ...], code: str) -> None:
    data = RUN | command("mpirun", "-np", "16", *HOSTS, *FORWARDED, *words, "python", "train.py")
    (finding,) = findings(data, MPI)
    assert (finding.code, finding.where.pointer) == (code, "/workload/command")


def test_root_without_a_root() -> None:
    """The pods are user 1000's, and so is sshd."""
    ((code, text),) = said("mpirun", "--allow-run-as-root", "-np", "16", *HOSTS, *FORWARDED, "python", "train.py")
    assert code == "TW423"
    assert "no pod runs as root" in text
