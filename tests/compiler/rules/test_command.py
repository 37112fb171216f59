"""Rules on command lines."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings, message, script
from tests.compiler.findings.page import overlay


@pytest.mark.parametrize("token", ["-np 2", "- -np 32", "-x NCCL_DEBUG=INFO", "--bind-to none", "--flag ", "-v\tx", "--a\nb"])
def test_an_option_with_a_blank_is_one_argument(token: str) -> None:
    assert codes(command("mpirun", token)) == ["TW405"]
    assert codes(script("python", "train.py", token)) == ["TW405"]


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "train.py", "--name=value with blank"),
        ("torchrun", "train.py", "a b"),
        ("sh", "-c", "-x is no option here"),
        ("/usr/bin/env", "bash", "-lc", "--odd start"),
        ("torchrun", "train.py", "-1 2"),
        ("/app/train", "-np", "2"),
    ],
)
def test_blanks_elsewhere_are_fine(words: tuple[str, ...]) -> None:
    assert codes(command(*words)) == []


def test_the_fix_spells_out_the_elements() -> None:
    assert "['-np', '32']" in message(command("mpirun", "- -np 32"))


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "--rdzv_backend=c10d", "train.py"),
        ("torchrun", "--rdzv-backend", "c10d", "--node_rank", "0", "train.py"),
        ("bash", "-c", "exec torchrun --rdzv_backend c10d train.py"),
        ("python", "-m", "torch.distributed.run", "--rdzv-backend=etcd-v2", "train.py"),
    ],
)
def test_a_dynamic_rendezvous_ignores_the_plans_ranks(words: tuple[str, ...]) -> None:
    assert "TW406" in codes(command(*words))


@pytest.mark.parametrize("option", ["--rdzv_backend=static", "--rdzv_backend=$(BACKEND)"])
def test_a_static_rendezvous_is_the_plans(option: str) -> None:
    assert codes(command("torchrun", option, "train.py")) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--nnodes=4",),
        ("--nnodes", "1:4"),
        ("--nproc_per_node=4",),
        ("--nproc-per-node", "gpu"),
        ("--master_port=29501",),
        ("--master_addr", "localhost"),
        ("--node_rank=0",),
        ("--standalone",),
        ("--max-restarts", "3", "--nnodes=3"),
    ],
)
def test_options_that_contradict_the_plan(options: tuple[str, ...]) -> None:
    assert codes(command("torchrun", *options, "train.py")) == ["TW411"]
    assert codes(command("python", "-m", "torch.distributed.run", *options, "train.py")) == ["TW411"]
    assert codes(command("bash", "-c", " ".join(["torchrun", *options, "train.py"]))) == ["TW411"]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--nnodes=2", "--nproc_per_node=8"),
        ("--nnodes=$(PET_NNODES)",),
        ("--node_rank=$(PET_NODE_RANK)",),
        ("--master_port", "29500"),
        ("--max-restarts=0",),
    ],
)
def test_options_that_agree_with_the_plan(options: tuple[str, ...]) -> None:
    assert codes(command("torchrun", *options, "train.py")) == []


def test_options_of_the_program_are_its_own() -> None:
    assert codes(command("torchrun", "train.py", "--nnodes", "7", "--standalone")) == []
    assert codes(command("torchrun", "train.py", "--nnodes=7")) == []


@pytest.mark.parametrize(
    "words",
    [
        ("accelerate", "launch", "--num_machines", "4", "--machine_rank", "$(PET_NODE_RANK)"),
        ("accelerate", "launch", "--num_machines=2", "--num_processes=8"),
        ("accelerate", "launch", "--multi_gpu", "--num_machines", "2", "--main_process_port", "12355"),
        ("accelerate", "launch", "--num_machines", "2", "--main_process_ip", "10.0.0.1"),
        ("accelerate", "launch", "--num_machines", "2", "--machine_rank", "0"),
        ("composer", "-n", "4", "--world_size", "$(WORLD)"),
        ("composer", "--world_size", "8"),
        ("composer", "--world_size", "16", "--base_rank", "0"),
        ("composer", "--world_size", "16", "--master_addr", "localhost"),
        ("deepspeed", "--no_ssh", "--num_nodes", "4"),
        ("deepspeed", "--no_ssh", "--num_gpus=4"),
        ("deepspeed", "--no_ssh", "--node_rank=1"),
        ("deepspeed", "--no_ssh", "--master_port", "1234"),
    ],
)
def test_options_of_other_launchers_that_contradict_the_plan(words: tuple[str, ...]) -> None:
    for run in (command(*words, "train.py", "--num_nodes", "9"), command("bash", "-c", " ".join([*words, "train.py"]))):
        assert [code for code in codes(run) if code != "TW450"] == ["TW411"], "TW450 names options that are missing besides"


@pytest.mark.parametrize(
    "words",
    [
        (
            "accelerate", "launch", "--num_machines=2", "--num_processes=16", "--machine_rank=$(PET_NODE_RANK)",
            "--main_process_ip=$(PET_MASTER_ADDR)", "--main_process_port=29500",
        ),
        ("accelerate", "launch", "--config_file", "/etc/accelerate.yaml"),
        ("composer", "-n", "8", "--world_size", "16", "--node_rank", "$(PET_NODE_RANK)", "--master_port", "29500"),
        ("deepspeed", "--no_ssh", "--num_nodes", "2", "--num_gpus", "8", "--node_rank", "$(PET_NODE_RANK)"),
    ],
)  # fmt: skip
def test_options_of_other_launchers_that_agree(words: tuple[str, ...]) -> None:
    assert codes(command(*words, "train.py", "--num_machines", "9")) == []


CONFIGURED = ("accelerate", "launch", "--config_file", "/etc/accelerate.yaml")
AGREES = "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmain_process_port: 29500\n"
RANKED = ("--machine_rank", "$(PET_NODE_RANK)", "--main_process_ip", "$(PET_MASTER_ADDR)")


def configured(content: str | Data, *options: str) -> list[str]:
    run = command(*CONFIGURED, *options, "train.py") | {"files": {"/etc/accelerate.yaml": content}}
    return [f"{finding.code} {finding.message}; {finding.fix}" for finding in findings(run)]


def test_a_configuration_among_the_files_is_read_as_options_are() -> None:
    path = "of /etc/accelerate.yaml"
    assert configured(AGREES, *RANKED) == []
    assert configured({"num_machines": 2, "num_processes": 16}, *RANKED) == []
    assert configured('{"num_machines": 2, "num_processes": 16, "machine_rank": null}', *RANKED) == []
    assert configured(AGREES.replace("16", "8"), *RANKED) == [
        f"TW411 num_processes 8 {path} contradicts the plan, which has 16; "
        "write 16; to change the number of ranks, change topology"
    ]  # fmt: skip
    assert configured(AGREES.replace("16", "8"), *RANKED, "--num_processes", "16") == [], "options win"
    other = configured({"num_machines": 4}, *RANKED)[0]
    assert other.startswith(f"TW411 num_machines 4 {path} contradicts the plan, which has 2")
    assert configured({}, *RANKED)[0].startswith(f"TW411 num_machines 1 {path}"), "its default"
    assert configured(AGREES, *RANKED[2:]) == [
        f"TW411 machine_rank {path} is 0 in every pod; write --machine_rank $(PET_NODE_RANK) in the command"
    ]
    (address,) = configured(AGREES + "main_process_ip: localhost\n", *RANKED[:2])
    assert address.endswith("write --main_process_ip $(PET_MASTER_ADDR) in the command")


def test_the_fix_for_another_launcher_is_a_value() -> None:
    """They read none of the plan's variables, so the options have to stay."""
    text = message(command("accelerate", "launch", "--num_machines", "2", *RANKED, "--num_processes", "8", "train.py"))
    assert "--num_processes 8 contradicts the plan, which has 16; write 16" in text
    text = message(command("accelerate", "launch", "--num_machines", "2", *RANKED[2:], "--machine_rank", "0", "train.py"))
    assert text.endswith("--machine_rank is the same number in every pod; write $(PET_NODE_RANK)")
    text = message(command("composer", "--world_size", "16", "--master_addr", "localhost", "train.py"))
    assert "write $(PET_MASTER_ADDR)" in text


@pytest.mark.parametrize("program", ["composer", "deepspeed", "accelerate"])
def test_a_launcher_that_is_told_of_no_other_pod(program: str) -> None:
    words = (program, "launch") if program == "accelerate" else (program,)
    assert codes(command(*words, "train.py")) == ["TW450"]


def test_a_program_that_reads_its_pods_index_numbers_the_ranks_itself() -> None:
    assert codes(command("python", "train.py")) == ["TW450"]
    assert codes(command("python", "train.py", "--node-rank", "$(PET_NODE_RANK)")) == []
    assert codes(command("bash", "-c", "python train.py --node-rank $JOB_COMPLETION_INDEX")) == []
    start = {"files": {"/etc/start.py": "import os\nrank = os.environ['PET_NODE_RANK']\n"}}
    assert codes(command("python", "/etc/start.py") | start) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("torchrun", "--foo", "NCCL_DEBGU=INFO"), "TW412"),
        (("bash", "-c", "export NCCL_DEBGU=INFO; torchrun train.py"), "TW412"),
        (("bash", "-c", "NCCL_TREE_THRESHOLD=0 torchrun train.py"), "TW407"),
        (("env", "NCCL_IB_TIMEOUT=99", "torchrun", "train.py"), "TW413"),
        (("env", "NCCL_ALGO=Ring", "torchrun", "train.py"), "TW408"),
        (("env", "WANDB_API_KEY=0123456789abcdef", "torchrun", "train.py"), "TW409"),
    ],
)
def test_variables_that_a_command_sets_are_read_too(words: tuple[str, ...], code: str) -> None:
    (finding,) = findings(command(*words))
    assert (finding.code, finding.where.pointer) == (code, "/workload/command")


@pytest.mark.parametrize(
    "words",
    [
        ("env", "NCCL_DEBUG=INFO", "torchrun", "train.py"),
        ("bash", "-c", "export NCCL_IB_TIMEOUT=$TIMEOUT && torchrun train.py"),
        ("bash", "-c", "torchrun train.py  # NCCL_TIMEOUT=1 was here"),
        ("torchrun", "train.py", "model.name=x", "lr=1"),
        ("bash", "-c", "torchrun 'open quote"),
    ],
)
def test_variables_of_a_command_without_a_fault(words: tuple[str, ...]) -> None:
    assert codes(command(*words)) == []


def test_one_node_may_stand_alone() -> None:
    topology = {"topology": {"nodes": 1}}
    assert codes(command("torchrun", "--standalone", "train.py") | topology) == []
    assert codes(command("torchrun", "--node_rank=0", "train.py") | topology) == []


def test_the_finding_names_both_values_and_the_field() -> None:
    text = message(command("torchrun", "--nproc_per_node=4", "train.py"))
    assert "--nproc_per_node 4 contradicts the plan, which has 8" in text
    assert "topology" in text


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "train.py"),
        ("/opt/bin/torchrun", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("deepspeed", "train.py"),
        ("accelerate", "launch", "train.py"),
        ("mpirun", "python", "train.py"),
        ("bash", "-c", "torchrun train.py"),
    ],
)
def test_a_script_is_started_once_a_rank_and_needs_no_launcher(words: tuple[str, ...]) -> None:
    assert codes(script(*words)) == ["TW411"]


def test_a_script_that_only_mentions_a_launcher_is_fine() -> None:
    assert codes(script("python", "train.py", "--launcher", "mpirun")) == []


# Commands under TF_CONFIG, and beside XGBoost's tracker.

TRAINING_OPERATOR: Data = {"operators": {"training-operator": {"version": "1.9.4"}}}
MIRRORED: Data = {
    "target": "tf-job", "topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 1},
}
MIRRORED_ALONE: Data = overlay(MIRRORED, {"topology": {"nodes": 1}})


def on_tf_config(data: Data) -> list[str]:
    return [code for code in codes(data, TRAINING_OPERATOR) if code in ("TW422", "TW429")]


def test_one_pod_has_no_tf_config() -> None:
    assert on_tf_config(MIRRORED_ALONE) == on_tf_config(MIRRORED_ALONE | command("python", "train.py")) == ["TW422"]
    assert on_tf_config(MIRRORED) == []


def test_a_program_that_may_call_fit() -> None:
    for work in (command("python", "train.py"), script("python", "train.py")):
        assert on_tf_config(MIRRORED | work) == ["TW429"]


def test_legacy_keras_can_fit() -> None:
    assert on_tf_config(MIRRORED | command("python", "train.py") | {"env": {"TF_USE_LEGACY_KERAS": "1"}}) == []


def test_other_topologies_are_not_asked_for_tensorflow() -> None:
    assert on_tf_config(command("python", "train.py")) == []


OPERATORS: Data = {"operators": {"training-operator": {"version": "1.9.4"}, "jobset": {"version": "0.12.0"}}}
TOPOLOGY: Data = {"topology": {"kind": "xgboost", "nodes": 3, "gpus_per_node": 0}}


def on_a_tracker(data: Data) -> list[str]:
    return [finding.fix for finding in findings(data, OPERATORS) if finding.code == "TW421"]


@pytest.mark.parametrize(
    ("target", "index"), [("indexed-job", "DMLC_TASK_ID"), ("job-set", "DMLC_TASK_ID"), ("xgboost-job", "RANK")]
)
def test_a_command_has_to_start_the_tracker(target: str, index: str) -> None:
    (fix,) = on_a_tracker({"target": target, **TOPOLOGY, **command("python", "boost.py")})
    assert f"where {index} is 0" in fix


@pytest.mark.parametrize("word", ["tracker_and_worker.py", "/opt/RabitTracker", "dmlc-submit"])
def test_one_that_names_a_tracker_is_believed(word: str) -> None:
    assert on_a_tracker({**TOPOLOGY, **command("python", word)}) == []


def test_other_topologies_are_not_asked_for_a_tracker() -> None:
    assert on_a_tracker(command("python", "boost.py")) == []
