"""What a command says to mpirun, against the plan."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, command, findings
from tests.compiler.findings.page import overlay

from trainwright.command.reading import read
from trainwright.rules.program.mpi import launch_of

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
    mine = overlay(MPI, {"node_pools": {"h100": {"pods": {"env": {"HF_HOME": "/tmp/hub"}}}}})
    ((code, text),) = said("mpirun", "-np", "16", *HOSTS, "-x", "EXTRA=1", "python", "train.py", cluster=mine)
    assert code == "TW423"
    assert "do not get HF_HOME:" in text
    assert "add -x HF_HOME, each word as a separate element" in text
    ((code, text),) = said("bash", "-c", f"mpirun -np 16 {' '.join(HOSTS)} python train.py", cluster=mine)
    assert text.endswith("add -x HF_HOME")
    mine = overlay(MPI, {"node_pools": {"h100": {"pods": {"env": {"OMPI_MCA_btl_tcp_if_include": "eth0"}}}}})
    assert said("mpirun", "-np", "16", *HOSTS, "python", "train.py", cluster=mine) == [], "mpirun exports OMPI_ by itself"
    assert said("mpirun", "-np", "16", *HOSTS, "python", "train.py") == [], "what the plan adds by itself is no loss"


@pytest.mark.parametrize("script", [
    "echo starting mpirun; exec mpirun -np 16 --hostfile /etc/mpi/hostfile python t.py", "mpirun $ARGS python t.py",
    'which mpirun && mpirun --hostfile /etc/mpi/hostfile "$EXTRA" -np 16 python t.py', "mpirun -np 16 ${HOSTS} python t.py",
])  # fmt: skip
def test_what_only_a_shell_knows_is_not_missed(script: str) -> None:
    mine = overlay(MPI, {"node_pools": {"h100": {"pods": {"env": {"HF_HOME": "/tmp/hub"}}}}})
    known = [text for _, text in said("bash", "-c", script, cluster=mine) if "do not get HF_HOME" not in text]
    assert known == []
    assert ("$" in script) == (said("bash", "-c", script, cluster=mine) == [])


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
    assert said("horovodrun", "--gloo", "-np", "16", *HOSTS, "python", "train.py") == []
    assert said("horovodrun", "-np", "16", "--host-discovery-script", "/app/hosts.sh", "python", "train.py") == []
    for mpi in ("openmpi", "intel", "mpich"):
        ((code, text),) = said("horovodrun", "-np", "16", "python", "train.py", mpi=mpi)
        assert (code, "Open MPI" in text, text.endswith("add --hostfile /etc/mpi/hostfile")) == ("TW420", False, True)
    ((code, _),) = said("horovodrun", "-np", "64", *HOSTS, "python", "train.py")
    assert code == "TW420"


def test_a_program_that_hides_mpirun_is_not_judged() -> None:
    assert said("/app/start.sh", "-np", "64") == []


def test_in_a_gang_the_launcher_does_not_wait_for_its_workers() -> None:
    ((code, text),) = said("/app/start.sh", cluster=GANG)
    assert (code, "`gang: false`" in text) == ("TW423", False), "the operator's flag would group the pods all the same"
    assert said("bash", "-c", "until ssh a true; do sleep 1; done; exec /app/start.sh", cluster=GANG) == []
    assert [it.code for it in findings(RUN | {}, GANG) if it.code.startswith("TW42")] == []


def test_where_nothing_launches_by_mpi_nothing_is_said() -> None:
    assert [it for it in findings(command("mpirun", "-np", "64", "python", "train.py")) if it.code in ("TW420", "TW423")] == []


def test_options_end_where_the_program_begins() -> None:
    words = "mpirun --allow-run-as-root --mca btl tcp --unknown value -np 4 python -n 9"
    launch = launch_of(read(tuple(words.split())))
    assert launch is not None
    assert [(option.name, *(word.text for word in option.values)) for option in launch.options] == [
        ("--allow-run-as-root",), ("--mca", "btl", "tcp"), ("--unknown", "value"), ("-np", "4"),
    ]  # fmt: skip
    assert launch_of(read(("python", "train.py"))) is None


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


@pytest.mark.parametrize(("options", "expected"), [
    (("-np", "16", "-N", "8"), None),
    (("-np", "16", "-N", "4"), ("TW420", "16 ranks and at most 4 in a pod, which makes 8; write 8 for 4, or remove it")),
    (("-np", "16", "--map-by", "ppr:4:node:PE=2"), ("TW420", "at most 4 in a pod")),
    (("-np", "8", "-N", "4"), ("TW423", "8 of 16 slots stay idle")),
    (("-npernode", "16"), ("TW420", "16 ranks in a pod, and a pod has 8 slots")),
    (("-N", "4"), ("TW423", "4 ranks in a pod, and 8 of 16 slots stay idle")),
    (("--map-by", "ppr:8:node"), None),
    (("-np", "16", "-N", "$EACH"), None),
])  # fmt: skip
def test_ranks_in_each_pod(options: tuple[str, ...], expected: tuple[str, str] | None) -> None:
    found = said("bash", "-c", f"mpirun {' '.join((*options, *HOSTS, *FORWARDED))} python train.py")
    if expected is None:
        assert found == []
    else:
        ((code, text),) = found
        assert (code, expected[1] in text) == (expected[0], True)


def of_image(user: Data, *words: str) -> list[str]:
    """On a cluster that leaves an image its user."""
    cluster = overlay(MPI, {"namespaces": {"training": {"pod_security": "privileged", "security": None}}, "security": None})
    run = {**RUN, **command("mpirun", *words, "-np", "16", *HOSTS, *FORWARDED[2:], "python", "train.py"), "security": user}
    return [one.message for one in findings(run, cluster) if one.code == "TW423" and "root" in one.message]


def test_root_has_to_be_told() -> None:
    """Where no user is stated, the plan takes the image for one made for root."""
    (as_root,), (unknown,) = of_image({"user": 0}), of_image({})
    assert as_root == "mpirun of Open MPI does not start as root"
    assert "the run states no user: the plan takes the image for one made for root, with keys in /root/.ssh" in unknown
    assert of_image({"user": 1000}) == []
    for user in ({"user": 0}, {}):
        assert of_image(user, "--allow-run-as-root") == []
        assert of_image(user, "-allow-run-as-root") == []


@pytest.mark.parametrize("words", [
    ("torchrun", "train.py"), ("python", "-m", "torch.distributed.run", "train.py"), ("accelerate", "launch", "train.py"),
    ("deepspeed", "train.py"), ("composer", "train.py"), ("bash", "-c", "exec torchrun train.py"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["mpi", "horovod"])
def test_a_launcher_that_is_no_mpirun(words: tuple[str, ...], kind: str) -> None:
    run = RUN | command(*words) | {"topology": RUN["topology"] | {"kind": kind}}
    (text,) = [f"{one.message}; {one.fix}" for one in findings(run, MPI) if one.code == "TW411"]
    assert "starts ranks in the launcher's pod alone, and 2 pods would wait for mpirun in vain" in text
    assert "write mpirun -np 16 --hostfile /etc/mpi/hostfile before the program in its place" in text


@pytest.mark.parametrize("words", [
    ("deepspeed", "--hostfile", "/etc/mpi/hostfile", "train.py"), ("/app/start.sh",), ("python", "start.py"),
    ("mpirun", "-np", "16", *HOSTS, "bash", "-c", "torchrun train.py"),
])  # fmt: skip
def test_others_may_start_the_ranks_by_ssh(words: tuple[str, ...]) -> None:
    assert "TW411" not in [one.code for one in findings(RUN | command(*words), MPI)]


def test_a_launcher_that_is_the_only_node_starts_them_all() -> None:
    topology = {"kind": "mpi", "nodes": 1, "gpus_per_node": 8, "launcher_is_node": True}
    assert "TW411" not in [one.code for one in findings(RUN | command("torchrun", "train.py") | {"topology": topology}, MPI)]


FIELD: Data = {"PN": {"field": "spec.nodeName"}}


@pytest.mark.parametrize(("run", "cluster", "place"), [
    ({"env": FIELD}, {}, "/env/PN"),
    ({}, {"node_pools": {"h100": {"pods": {"env": FIELD}}}}, "/node_pools/h100/pods/env/PN"),
])  # fmt: skip
def test_a_field_of_the_launcher_is_none_of_the_ranks(run: Data, cluster: Data, place: str) -> None:
    (finding,) = [one for one in findings(RUN | run, overlay(MPI, cluster)) if one.code == "TW427"]
    assert finding.where.pointer == place
    assert ("under env of the run" in finding.fix) == bool(cluster)


@pytest.mark.parametrize("field", ["metadata.namespace", "metadata.labels['app.kubernetes.io/instance']"])
def test_a_field_that_is_the_same_in_every_pod_may_be_a_part_of_what_is_handed_on(field: str) -> None:
    """By itself it is not handed on, and so no rank has it."""
    env = {"PN": {"field": field}}
    assert "TW427" in [one.code for one in findings(RUN | {"env": env}, MPI)]
    assert "TW427" not in [one.code for one in findings(RUN | {"env": {**env, "HOST": "$(PN)-worker-0"}}, MPI)]
    other = {"PN": {"field": "spec.nodeName"}, "HOST": "$(PN)-worker-0"}
    assert "TW427" in [one.code for one in findings(RUN | {"env": other}, MPI)]


def test_where_ranks_meet_is_the_runs_to_say_where_mpirun_tells_them_nothing_of_it() -> None:
    """A program of MPI alone gets names of MPI's own; a torch topology brings those of torch."""
    env = {"env": {"MASTER_ADDR": "example.com", "MASTER_PORT": "29500"}}
    mpi = {"topology": {"kind": "mpi", "nodes": 2, "gpus_per_node": 8}}
    line = command("mpirun", "-np", "16", *HOSTS, "-x", "MASTER_ADDR", "-x", "MASTER_PORT", "/bin/a.sh")
    assert "TW403" not in [one.code for one in findings(RUN | line | mpi | env, MPI)]
    assert "TW403" in [one.code for one in findings(RUN | line | mpi | {"env": {"RANK": "0"}}, MPI)]
    torch = {"topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8, "mpi": "openmpi"}}
    assert "TW403" in [one.code for one in findings(RUN | line | torch | env, MPI)]


def test_the_launchers_own_field_stays_with_it() -> None:
    assert "TW427" not in [one.code for one in findings(RUN | {"roles": {"launcher": {"env": FIELD}}}, MPI)]


def test_a_run_may_replace_a_field_of_its_pool() -> None:
    cluster = overlay(MPI, {"node_pools": {"h100": {"pods": {"env": FIELD}}}})
    assert "TW427" not in [one.code for one in findings(RUN | {"env": {"PN": ""}}, cluster)]
