"""Rules on command lines."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, compiled, findings, message, script
from tests.compiler.findings.page import overlay

from trainwright.report.plan import plan_lines


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
        ("python", "-m", "torch.distributed.run", "--rdzv-backend=c10d", "train.py"),
    ],
)
def test_a_dynamic_rendezvous_ignores_the_plans_ranks(words: tuple[str, ...]) -> None:
    (found,) = [one for one in findings(command(*words)) if one.code == "TW406"]
    assert (found.severity.value, "--rdzv_endpoint" in found.fix) == ("error", True)
    at = "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)"
    meets = [*words[:-1], words[-1].replace("train.py", f"{at} train.py")] if words[0] == "bash" else [*words[:-1], at, words[-1]]
    (found,) = findings(command(*(word for word in meets if word not in ("--node_rank", "0"))))
    assert (found.code, found.severity.value, "do not follow the pods" in found.message) == ("TW406", "warning", True)
    waiver = {"code": "TW406", "reason": "no rank needs its place", "expires": "2026-12-31"}
    run = command("torchrun", "--rdzv_backend=c10d", at, "t.py") | {"waivers": [waiver]}
    assert [one.waived for one in findings(run)] == ["no rank needs its place"]


@pytest.mark.parametrize("backend", ["etcd", "etcd-v2"])
def test_a_rendezvous_at_a_server_has_an_endpoint_of_its_own(backend: str) -> None:
    (found,) = findings(command("torchrun", f"--rdzv_backend={backend}", "train.py"))
    assert (found.code, found.severity.value, "own pod" in found.message) == ("TW406", "error", True)
    assert "MASTER_ADDR" not in found.fix
    server = found.fix.rpartition(" ")[2]
    (found,) = findings(command("torchrun", "--rdzv-backend", backend, server, "train.py"))
    assert (found.code, found.severity.value) == ("TW406", "warning")


@pytest.mark.parametrize("option", ["--rdzv_backend=static", "--rdzv_backend=$(BACKEND)"])
def test_a_static_rendezvous_is_the_plans(option: str) -> None:
    assert codes(command("torchrun", option, "train.py") | {"env": {"BACKEND": "static"}}) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--nnodes=4",),
        ("--nnodes", "1:4"),
        ("--nproc_per_node=4",),
        ("--nproc-per-node", "cpu"),
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
        ("--nproc_per_node=gpu",),
        ("--nproc-per-node", "auto"),
    ],
)
def test_options_that_agree_with_the_plan(options: tuple[str, ...]) -> None:
    assert codes(command("torchrun", *options, "train.py")) == []


@pytest.mark.parametrize("words", [
    ("accelerate-launch", "--num_processes", "8", "t.py"),
    ("python", "-m", "accelerate.commands.launch", "t.py"),
    ("python3", "-m", "deepspeed.launcher.runner", "t.py"),
    ("python", "-m", "composer.cli.launcher", "-n", "8", "t.py"),
])  # fmt: skip
def test_launchers_have_other_names(words: tuple[str, ...]) -> None:
    (finding,) = [one for one in findings(command(*words)) if one.code == "TW450"]
    assert "starts ranks in its own pod only" in finding.message


def test_a_module_may_stand_in_one_word_with_its_option() -> None:
    assert codes(command("python", "-mtorch.distributed.run", "train.py")) == []
    assert codes(command("python", "-mtorch.distributed.run", "--nnodes=3", "train.py")) == ["TW411"]


@pytest.mark.parametrize("flag", ["--use_env", "--a-flag-of-a-later-release"])
def test_options_after_a_flag_are_read(flag: str) -> None:
    assert codes(command("torchrun", flag, "--nproc_per_node=4", "train.py")) == ["TW411"]


@pytest.mark.parametrize(("endpoint", "says"), [
    ("localhost:29500", "--rdzv_endpoint localhost:29500 contradicts the plan, which has example-"),
    ("$(MASTER_ADDR)", "which holds the host of rank 0, and not host and port of rank 0; remove it"),
])  # fmt: skip
def test_where_torchrun_meets_is_the_plans(endpoint: str, says: str) -> None:
    assert says in message(command("torchrun", f"--rdzv_endpoint={endpoint}", "train.py"))
    assert codes(command("torchrun", "--rdzv-endpoint", "$(MASTER_ADDR):$(MASTER_PORT)", "train.py")) == []


@pytest.mark.parametrize("options", ["-c", "-ce", "-cx", "-ceu", "-lce"])
def test_the_text_of_a_shell_is_read_whatever_options_stand_with_it(options: str) -> None:
    text = "H=$(hostname); exec torchrun --node_rank=$NODE_RANK --nnodes={} t.py"
    assert codes(command("bash", options, text.format(3))) == ["TW411"]
    assert codes(command("bash", options, text.format(2))) == []


@pytest.mark.parametrize("before", [
    "python -m pip install deepspeed", "uv pip install ray", "torchrun --standalone prep.py", "torchrun --nnodes=1 prep.py",
    "accelerate launch prep.py", "torchrun prep.py",
])  # fmt: skip
def test_every_launcher_counts_that_may_meet_the_other_pods(before: str) -> None:
    assert codes(command("bash", "-c", f"{before} && exec torchrun --nnodes=3 train.py")) == ["TW411"]
    assert codes(command("bash", "-c", f"{before} && exec torchrun train.py")) == []


@pytest.mark.parametrize("before", ["uv run --frozen", "nsys profile --trace=cuda", "conda run --no-capture-output"])
def test_a_launcher_behind_a_runner_with_options(before: str) -> None:
    assert codes(command(*before.split(), "torchrun", "--nnodes=3", "train.py")) == ["TW411"]
    assert codes(command(*before.split(), "torchrun", "train.py")) == []
    told = "accelerate launch --num_machines 2 --num_processes 16 --machine_rank $(NODE_RANK) --main_process_ip $(MASTER_ADDR)"
    assert codes(command("bash", "-c", f"{before} {told} x.py && python eval.py")) == ["TW470"]


def test_a_launcher_in_one_pod_counts_where_there_is_no_other() -> None:
    assert codes(command("bash", "-c", "torchrun --standalone a.py && exec torchrun --standalone b.py")) == ["TW411"]
    assert codes(command("bash", "-c", "accelerate launch a.py && exec accelerate launch b.py")) == ["TW450"]
    assert codes(command("bash", "-c", "python -m pip install ray && exec python train.py")) == ["TW450"]


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
        ("deepspeed", "--no_ssh", "-H", "/hosts", "--num_nodes", "2", "--num_gpus", "8", "--node_rank", "$(PET_NODE_RANK)"),
    ],
)  # fmt: skip
def test_options_of_other_launchers_that_agree(words: tuple[str, ...]) -> None:
    assert codes(command(*words, "train.py", "--num_machines", "9")) == []


OF_ALL_PODS = "accelerate launch --num_machines $NNODES --num_processes $((NNODES * NPROC_PER_NODE)) --machine_rank $NODE_RANK"


@pytest.mark.parametrize(("told", "instead", "says"), [
    ("--machine_rank $NODE_RANK", "--machine_rank 0", "--machine_rank is the same number in every pod"),
    ("$MASTER_ADDR", "localhost", "--main_process_ip localhost contradicts the plan"),
    ("$MASTER_PORT", "1234", "--main_process_port 1234 contradicts the plan"),
])  # fmt: skip
@pytest.mark.parametrize("line_ends", [" ", " \\\n  "], ids=["one line", "several lines"])
def test_options_after_what_a_shell_computes(told: str, instead: str, says: str, line_ends: str) -> None:
    """In a shell's script ``$((a * b))`` is one word, and a backslash goes on in the next line."""
    right = f"{OF_ALL_PODS} --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT t.py".replace(" --", f"{line_ends}--")
    assert codes(command("bash", "-c", right)) == []
    (finding,) = findings(command("bash", "-c", right.replace(told.replace(" --", f"{line_ends}--"), instead)))
    assert (finding.code, says in finding.message) == ("TW411", True)


@pytest.mark.parametrize(("words", "says"), [
    (("torchrun", "--nnodes", "$NNODES"), "--nnodes is given the text $NNODES"),
    (("torchrun", "--node_rank=${NODE_RANK}"), "remove it: torchrun reads PET_ variables"),
    ((*OF_ALL_PODS.split()[:2], "--num_machines=2", "--machine_rank", "$NODE_RANK", *("--main_process_ip", "$(MASTER_ADDR)")),
     "write $(NODE_RANK)"),
    ((*OF_ALL_PODS.split()[:2], "--num_machines=2", "--num_processes", "$((NNODES*8))", "--machine_rank=$(NODE_RANK)",
      "--main_process_ip=$(MASTER_ADDR)"), "write the number; or start the command by a shell"),
    (("bash", "-c", 'exec "$@"', "bash", "composer", "--world_size=16", "-n", "$NPROC_PER_NODE"), "write $(NPROC_PER_NODE)"),
])  # fmt: skip
def test_an_option_in_a_shells_words_without_a_shell(words: tuple[str, ...], says: str) -> None:
    (finding,) = findings(command(*words, "t.py"))
    assert finding.code == "TW411"
    assert says in f"{finding.message}; {finding.fix}"


ZERO: Data = {"topology": {"kind": "zero3", "engine": "deepspeed", "nodes": 2, "gpus_per_node": 8}}
BY_HOSTS = ("deepspeed", "--no_ssh", "--hostfile", "/etc/deepspeed/hosts", "--node_rank", "$(NODE_RANK)")


def of_hosts(content: str, *options: str) -> list[str]:
    run = {**command(*BY_HOSTS, *options, "t.py"), **ZERO, "files": {"/etc/deepspeed/hosts": content}}
    return [f"{one.where.pointer} {one.code} {one.message}" for one in findings(run)]


def test_hosts_of_deepspeed_are_the_pods() -> None:
    place = "/files/~1etc~1deepspeed~1hosts TW411 the host file /etc/deepspeed/hosts"
    assert of_hosts("# two\na slots=8\n\nb  slots=8 # the last\n") == []
    assert of_hosts("a slots=4\nb slots=4\n", "--num_gpus", "8") == [], "the option wins"
    assert of_hosts("a slots=8\nb slots=8\nc slots=8\n", "--num_nodes", "2") == [], "the first two"
    assert of_hosts("a slots=8\nb slots=8\nc slots=8\n", "--exclude", "c") == []
    assert of_hosts("a slots=4\nb slots=4\nc slots=4\n") == [
        f"{place} names 3 hosts, and the plan has 2 pods",
        f"{place} gives a pod 4 slots, and the plan has 8 ranks in each",
    ]  # fmt: skip
    assert of_hosts("a slots=8\n", "--num_gpus=8") == [f"{place} names 1 host, and the plan has 2 pods"]


def test_deepspeed_with_hosts_uses_ssh_unless_told() -> None:
    words = [word for word in BY_HOSTS if word != "--no_ssh"]
    text = message(command(*words, "t.py") | ZERO)
    assert "without --no_ssh deepspeed of each pod starts the ranks of all hosts by ssh, and no pod listens for it" in text
    assert codes({**command(*words, "t.py"), **ZERO, "topology": {**ZERO["topology"], "nodes": 1}}) == []


@pytest.mark.parametrize(("left_out", "says"), [
    ("--hostfile", "deepspeed starts ranks in its own pod only"),
    ("--node_rank", "without --node_rank deepspeed cannot tell which of 2 pods it is in"),
])  # fmt: skip
def test_deepspeed_without_ssh_reads_hosts_and_its_number(left_out: str, says: str) -> None:
    at = BY_HOSTS.index(left_out)
    assert says in message(command(*BY_HOSTS[:at], *BY_HOSTS[at + 2 :], "t.py") | ZERO)


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
        (("env", "NCCL_SOCKET_IFNAME=eth9", "torchrun", "train.py"), "TW403"),
        (("bash", "-c", "NCCL_SOCKET_IFNAME=eth9 torchrun train.py"), "TW403"),
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
        ("bash", "-c", "NCCL_SOCKET_IFNAME=eth0 torchrun train.py"),
        ("bash", "-c", "test -e /sys/class/net/eth9 && NCCL_SOCKET_IFNAME=eth9 || NCCL_SOCKET_IFNAME=eth0; torchrun train.py"),
    ],
)
def test_variables_of_a_command_without_a_fault(words: tuple[str, ...]) -> None:
    assert codes(command(*words)) == []


def test_one_node_may_stand_alone() -> None:
    topology = {"topology": {"nodes": 1}}
    assert codes(command("torchrun", "--standalone", "train.py") | topology) == []
    assert codes(command("torchrun", "--node_rank=0", "train.py") | topology) == []
    assert codes(command("torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "train.py") | topology) == []


@pytest.mark.parametrize("words", [
    ("torchrun", "--master_addr=localhost", "--master_port=29501"),
    ("deepspeed", "--num_gpus=8", "--master_port", "29501"),
    ("accelerate", "launch", "--num_processes=8", "--main_process_port=12355"),
    ("env", "MASTER_PORT=1234", "MASTER_ADDR=127.0.0.1", "torchrun"),
])  # fmt: skip
def test_nobody_else_looks_for_rank_0_of_one_pod(words: tuple[str, ...]) -> None:
    assert codes(command(*words, "train.py") | {"topology": {"nodes": 1}}) == []
    assert "TW411" in codes(command(*words, "train.py"))


def test_the_address_of_another_host_is_wrong_in_one_pod_too() -> None:
    assert codes(command("torchrun", "--master_addr=10.0.0.1", "train.py") | {"topology": {"nodes": 1}}) == ["TW411"]


def test_as_many_ranks_as_gpus_is_no_number_without_gpus() -> None:
    on_cpus = {"topology": {"gpus_per_node": 0, "processes_per_node": 4}}
    assert "TW411" in codes(command("torchrun", "--nproc_per_node=auto", "train.py") | on_cpus)


@pytest.mark.parametrize("words", [("bash", "/app/run.sh"), ("/app/run.sh",), ("bash", "-c", "cd /app && exec /app/run.sh")])
def test_a_script_among_the_files_is_read_as_one_in_the_command(words: tuple[str, ...]) -> None:
    def said(text: str) -> list[str]:
        files = {"files": {"/app/run.sh": text}, "file_modes": {"/app/run.sh": "0555"}}
        return [f"{one.where.pointer} {one.code}" for one in findings(command(*words) | files)]

    assert said("#!/bin/bash\n# torchrun --nnodes=9 of old\nexec torchrun --nnodes=4 t.py\n") == ["/files/~1app~1run.sh TW411"]
    assert said("#!/bin/bash\nexec torchrun --nnodes=$NNODES --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR t.py\n") == []
    other = {"files": {"/app/other.sh": "torchrun --nnodes=4 t.py"}}
    assert codes(command("torchrun", "t.py") | other) == [], "nobody starts it"


def test_a_comment_in_a_script_is_no_command() -> None:
    assert codes(command("bash", "-c", "# torchrun --nnodes=4 once\ntorchrun t.py\n")) == []


@pytest.mark.parametrize("text", [
    "ARGS='--nnodes 4 --max-restarts 1'; torchrun $ARGS t.py", "ARGS=(--nnodes 4); torchrun \"${ARGS[@]}\" t.py",
    "START=torchrun; $START --nnodes '4' t.py", "if true; then exec torchrun --nnodes=4 t.py; fi",
])  # fmt: skip
def test_what_a_script_keeps_in_variables_is_read(text: str) -> None:
    (finding,) = findings(command("bash", "-c", text))
    assert (finding.code, "--nnodes 4 contradicts the plan, which has 2" in finding.message) == ("TW411", True)


@pytest.mark.parametrize("text", [
    "echo torchrun --nnodes=4; torchrun t.py", "cat <<E > run.sh\ntorchrun --nnodes=4\nE\ntorchrun t.py",
    "torchrun t.py # --nnodes=4",
])  # fmt: skip
def test_text_that_only_names_a_launcher_starts_none(text: str) -> None:
    assert codes(command("bash", "-c", text)) == []


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


# Commands of roles, which stand in the place of the run's.

ON_PYTORCH: Data = {"target": "pytorch-job", **command("torchrun", "t.py"), "security": {"user": 1000}}


def of_worker(**parts: object) -> list[tuple[str, str]]:
    profile = overlay(TRAINING_OPERATOR, {"operators": {"training-operator": {"restricted_containers": True}}})
    return [(one.code, one.where.pointer) for one in findings(ON_PYTORCH | {"roles": {"worker": parts}}, profile)]


@pytest.mark.parametrize(("words", "code"), [
    (["torchrun", "--nnodes", "5", "t.py"], "TW411"),
    (["torchrun", "--nnodes", "$NNODES", "t.py"], "TW411"),
    (["torchrun", "--rdzv_backend=c10d", "t.py"], "TW406"),
    (["python", "t.py"], "TW450"),
    (["bash", "-c", "NODE_RANK=1 start"], "TW411"),
    (["env", "NCCL_ALGO=Ring", "torchrun", "t.py"], "TW408"),
    (["env", "NCCL_SOCKET_IFNAME=eth9", "torchrun", "t.py"], "TW403"),
    (["torchrun", "t.py", "$(NUMBER)"], "TW419"),
])  # fmt: skip
def test_the_command_of_a_role_is_read_as_that_of_the_run(words: list[str], code: str) -> None:
    assert of_worker(command=words) == [(code, "/roles/worker/command")]


def test_arguments_of_a_role_follow_the_runs_command() -> None:
    run = ON_PYTORCH | {"workload": {"kind": "command", "command": ["torchrun", "--max-restarts"], "args": ["0", "t.py"]}}
    profile = overlay(TRAINING_OPERATOR, {"operators": {"training-operator": {"restricted_containers": True}}})
    for args, expected in (
        (["0", "--nnodes=5", "t.py"], ("TW411", "/roles/worker/args")),
        (["0", "-x y", "t.py"], ("TW405", "/roles/worker/args/1")),
    ):
        (finding,) = findings(run | {"roles": {"worker": {"args": args}}}, profile)
        assert (finding.code, finding.where.pointer) == expected


def test_a_word_of_a_role_has_its_own_place() -> None:
    assert of_worker(command=["torchrun", "-x y", "t.py"])[0] == ("TW405", "/roles/worker/command/1")
    assert of_worker(command=["torchrun", "t.py"]) == []


def test_where_every_role_has_its_own_command_nobody_reads_that_of_the_run() -> None:
    roles = {"master": {"command": ["torchrun", "t.py"]}, "worker": {"command": ["torchrun", "t.py"]}}
    profile = overlay(TRAINING_OPERATOR, {"operators": {"training-operator": {"restricted_containers": True}}})
    assert codes({**ON_PYTORCH, **command("torchrun", "--nnodes=5", "t.py"), "roles": roles}, profile) == []


@pytest.mark.parametrize(("env", "code"), [
    ({"NCCL_SOCKET_IFNAME": "eth9"}, "TW403"), ({"NCCL_SOCKET_IFNAME": "eth0"}, "TW416"), ({"NNODES": "5"}, "TW411"),
    ({"PLACE": "$(RANK)"}, "TW419"), ({"NCCL_IB_HCA": "mlx5"}, "TW408"),
])  # fmt: skip
def test_variables_of_a_role_are_read_as_those_of_the_run(env: Data, code: str) -> None:
    assert of_worker(env=env) == [(code, f"/roles/worker/env/{next(iter(env))}")]


def test_who_writes_a_script_is_told_that_its_image_needs_the_trainer() -> None:
    (finding,) = [one for one in findings(command("python", "train.py")) if one.code == "TW450"]
    assert "with trainwright-trainer in the image" in finding.fix
    needs = "trainwright-trainer"
    assert [needs in line for line in plan_lines(compiled(script("python", "train.py")))].count(True) == 1
    assert not [line for line in plan_lines(compiled(command("torchrun", "train.py"))) if needs in line]
