"""Rules on variables that say where ranks are."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings, message, script
from tests.compiler.targets import on, profile_for

ON_PYTORCH = profile_for("pytorch-job")
ELASTIC: Data = {"topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8, "elastic": {"min_nodes": 2, "max_nodes": 4}}}


def shell(text: str) -> Data:
    return command("bash", "-c", text)


@pytest.mark.parametrize(("text", "says"), [
    ("NODE_RANK=0 start", "NODE_RANK=0 is the same in every pod; remove it: pods have NODE_RANK from the plan"),
    ("export MASTER_ADDR=10.0.0.1; torchrun t.py", "MASTER_ADDR=10.0.0.1 contradicts the plan, which has example-"),
    ("NNODES=4 start", "NNODES=4 contradicts the plan, which has 2"),
    ("WORLD_SIZE=2 RANK=$X start", "WORLD_SIZE=2 contradicts the plan, which has 16; remove it: the launcher sets it"),
    ("env RANK=0 start", "RANK=0 is the same in every pod"),
    ("PET_NODE_RANK=1 torchrun t.py", "PET_NODE_RANK=1 is the same in every pod"),
])  # fmt: skip
def test_a_value_in_the_command_is_the_same_in_every_pod(text: str, says: str) -> None:
    (finding,) = [one for one in findings(shell(text)) if one.code == "TW411"]
    assert says in f"{finding.message}; {finding.fix}"


@pytest.mark.parametrize("text", [
    "NODE_RANK=$JOB_COMPLETION_INDEX start", "NNODES=2 start", "if x; then NODE_RANK=0; else NODE_RANK=1; fi; start",
    "MASTER_PORT=29500 start",
])  # fmt: skip
def test_what_agrees_or_depends_is_fine(text: str) -> None:
    assert codes(shell(text)) == []


@pytest.mark.parametrize(("resource", "is_set"), [("google.com/tpu", True), ("nvidia.com/gpu", False)])
def test_what_gke_sets_comes_with_its_devices(resource: str, is_set: bool) -> None:
    pool = {"node_pools": {"h100": {"gpu": {"resource": resource}}}}
    start = shell("python t.py --worker $TPU_WORKER_ID --of $PADDLE_TRAINERS_NUM")
    jax = {"topology": {"kind": "jax", "nodes": 2, "gpus_per_node": 8}}
    said = [one.message.split()[3] for one in findings(start | jax, pool) if one.code == "TW457"]
    assert said == ["PADDLE_TRAINERS_NUM,", *([] if is_set else ["TPU_WORKER_ID,"])]


MEETS = "train.py --to $(MASTER_ADDR):$(MASTER_PORT)"


@pytest.mark.parametrize(("gpus", "program", "told", "expected"), [
    (1, MEETS, {"RANK": "FIELD", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, []),
    (1, "train.py", {"RANK": "FIELD", "WORLD_SIZE": "2"}, ["TW450"]),
    (1, "train.py", {}, ["TW450"]),
    (1, MEETS, {"RANK": "FIELD", "WORLD_SIZE": "4"}, ["TW411"]),
    (1, MEETS, {"RANK": "0", "WORLD_SIZE": "2"}, ["TW411"]),
    (1, "train.py", {"RANK": "FIELD", "WORLD_SIZE": "2", "MASTER_ADDR": "elsewhere"}, ["TW403", "TW450"]),
    (8, "train.py", {"RANK": "FIELD", "WORLD_SIZE": "16"}, ["TW403", "TW403", "TW450"]),
    (1, "-m torch.distributed.run train.py", {"RANK": "FIELD", "WORLD_SIZE": "2"}, ["TW403", "TW403"]),
])  # fmt: skip
def test_without_a_launcher_a_pod_of_one_rank_may_be_told_which(
    gpus: int, program: str, told: Data, expected: list[str]
) -> None:
    env = {name: INDEX if value == "FIELD" else value for name, value in told.items()}
    run = command("python", *program.split()) | {"env": env, "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": gpus}}
    assert sorted(code for code in codes(run) if code in ("TW403", "TW411", "TW450")) == expected


@pytest.mark.parametrize(("gpus", "value", "expected"), [(1, "0", []), (1, "1", ["TW411"]), (8, "0", ["TW411"])])
def test_the_only_rank_of_each_pod_is_its_first(gpus: int, value: str, expected: list[str]) -> None:
    topology = {"topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": gpus}}
    found = codes(shell(f"export RANK=$JOB_COMPLETION_INDEX LOCAL_RANK={value}; exec python t.py --to $MASTER_ADDR") | topology)
    assert [code for code in found if code == "TW411"] == expected


def test_a_value_in_env_is_read_as_one_in_the_command() -> None:
    start = shell("start $NODE_RANK")
    assert "is the same in every pod" in message(start | {"env": {"NODE_RANK": "0"}})
    assert "NNODES=3 contradicts the plan, which has 2" in message(start | {"env": {"NNODES": "3"}})
    assert codes(start | {"env": {"NNODES": "2"}}) == []
    assert codes(start | {"env": {"MASTER_ADDR": "example-0"}}) == ["TW403"]


INDEX: Data = {"field": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}


@pytest.mark.parametrize(("text", "env", "expected"), [
    ("torchrun --node_rank=$RANK t.py", {"RANK": INDEX}, []),
    ("if [ ${RANK} = 0 ]; then fetch; fi; torchrun t.py", {"RANK": INDEX}, []),
    ("echo pod ${RANK:-0}; torchrun t.py", {"RANK": INDEX}, []),
    ("launch --nodes $WORLD_SIZE --me $RANK", {"WORLD_SIZE": "16", "RANK": INDEX}, []),
    ("launch --to $MASTER_ADDR:$MASTER_PORT", {"MASTER_ADDR": {"config_map": "c", "key": "k"}, "MASTER_PORT": "29500"}, []),
    ("launch --me $RANK", {"RANK": "0"}, ["TW411"]),
    ("launch --to $MASTER_ADDR", {"MASTER_ADDR": "elsewhere"}, ["TW411"]),
    ("launch '$RANK'", {"RANK": INDEX}, ["TW403"]),
    ("torchrun t.py", {"RANK": INDEX}, ["TW403"]),
    ("launch $PET_NODE_RANK", {"PET_NODE_RANK": INDEX}, ["TW403"]),
])  # fmt: skip
def test_what_the_shell_of_the_command_reads_is_the_commands(text: str, env: Data, expected: list[str]) -> None:
    assert codes(shell(text) | {"env": env}) == expected


@pytest.mark.parametrize(("words", "expected"), [
    (("bash", "/app/start.sh"), []), (("/app/start.sh",), []), (("bash", "/app/other.sh"), ["TW403"]),
])  # fmt: skip
def test_so_is_what_a_script_among_the_files_reads(words: tuple[str, ...], expected: list[str]) -> None:
    files = {"/app/start.sh": "#!/bin/bash\nlaunch --me $RANK\n"}
    run: Data = {**command(*words), "env": {"RANK": INDEX}, "files": files, "file_modes": {"/app/start.sh": "0555"}}
    assert [code for code in codes(run) if code == "TW403"] == expected


def test_what_the_operator_sets_stays_its_own() -> None:
    run = {**on("pytorch-job"), **command("bash", "-c", "launch --me $RANK"), "env": {"RANK": "$(X)"}}
    assert "TW403" in codes(run, ON_PYTORCH)


@pytest.mark.parametrize(("words", "says"), [
    (("-x", "RANK=0"), "RANK=0 is the same in every process that mpirun starts"),
    (("-x", "WORLD_SIZE=2"), "WORLD_SIZE=2 contradicts the plan, which has 16"),
    (("-x", "MASTER_ADDR=node-1"), "MASTER_ADDR=node-1 contradicts the plan, which has example-"),
])  # fmt: skip
def test_what_mpirun_hands_on_is_read_too(words: tuple[str, ...], says: str) -> None:
    run = {**on("mpi-job"), **command("mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", *words, "python", "t.py")}
    (finding,) = [one for one in findings(run, profile_for("mpi-job")) if one.code == "TW420"]
    assert says in finding.message


@pytest.mark.parametrize(("option", "says"), [
    ("--nnodes=$NPROC_PER_NODE", "--nnodes is $NPROC_PER_NODE, which holds the ranks of a pod, and not the number of pods"),
    ("--node_rank=$(NNODES)", "write $(NODE_RANK)"),
    ("--master_addr=${MASTER_PORT}", "write $(MASTER_ADDR)"),
])  # fmt: skip
def test_an_option_is_given_what_it_asks_for(option: str, says: str) -> None:
    assert says in message(shell(f"torchrun {option} t.py"))


def test_processes_of_all_pods_are_not_pods() -> None:
    options = "--num_machines $NNODES --machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR"
    assert "write 16" in message(shell(f"accelerate launch {options} --num_processes $NNODES t.py"))
    assert codes(shell(f"accelerate launch {options} --num_processes $((NNODES * NPROC_PER_NODE)) t.py")) == []


def test_a_reference_in_env_to_what_is_appended_stays_as_it_is() -> None:
    env = {"env": {"NODE_RANK": "$(PET_NODE_RANK)"}}
    (finding,) = findings({**on("pytorch-job"), **shell("start $NODE_RANK"), **env}, ON_PYTORCH)
    assert finding.code == "TW419"
    assert "stays as it is" in finding.message
    assert codes(shell("start $NODE_RANK") | env) == []


@pytest.mark.parametrize("stated", [{"env": {"R": "$(NODE_RANK)"}}, {"roles": {"worker": {"env": {"R": "$(NODE_RANK)"}}}}])
def test_a_reference_in_env_to_what_the_command_line_hands_on_stays_too(stated: Data) -> None:
    for words in (("start", "$(NODE_RANK)"), ("bash", "-c", "start $R")):
        (finding,) = findings({**on("pytorch-job"), **command(*words), **stated}, ON_PYTORCH)
        assert (finding.code, finding.where.pointer.endswith("/env/R")) == ("TW419", True)
        assert "R holds $(NODE_RANK), which stays as it is: the command line hands NODE_RANK on" in finding.message
    assert codes(command("start", "$(NODE_RANK)") | {"env": {"R": "$(NODE_RANK) $$(RANK)"}}) == [], "a field, before it"


@pytest.mark.parametrize(("env", "says"), [
    ({"A": "$(B)"}, "A holds $(B), which stays as it is: the pod sets no B before it"),
    ({"A": "x $(B)", "B": "1"}, "the pod sets no B before it"),
    ({"A": "$(JOB_COMPLETION_INDEX)"}, "the controller sets JOB_COMPLETION_INDEX after it"),
])  # fmt: skip
def test_a_reference_in_env_to_what_is_not_there(env: Data, says: str) -> None:
    (finding,) = findings(command("torchrun", "t.py") | {"env": env})
    assert (finding.code, finding.where.pointer) == ("TW419", "/env/A")
    assert says in finding.message


@pytest.mark.parametrize("env", [
    {"B": "1", "A": "$(B) $(PET_NNODES)"}, {"A": "$$(B) $$$$(C)"}, {"A": "$(KUBERNETES_SERVICE_HOST)"}, {"A": "$(not a name)"},
])  # fmt: skip
def test_references_in_env_that_kubernetes_replaces(env: Data) -> None:
    assert codes(command("torchrun", "t.py") | {"env": env}) == []


@pytest.mark.parametrize(("words", "says"), [
    (("torchrun", "--nnodes", "$(NUM_NODES)", "t.py"), "$(NUM_NODES), which stays as it is: the pods have no variable NUM_NODES"),
    (("bash", "-c", "torchrun t.py --of $(NUM_NODES)"), "$(NUM_NODES), which stays as it is"),
    (("torchrun", "t.py", "--of=$NNODES-$PET_NNODES"), "the text $PET_NNODES, which nothing replaces: no shell reads"),
    (("torchrun", "t.py", "--at", "${OUT}/x"), "write $(OUT), which Kubernetes expands"),
])  # fmt: skip
def test_words_that_nobody_replaces(words: tuple[str, ...], says: str) -> None:
    found = findings(command(*words) | {"env": {"OUT": "/out"}})
    assert {one.code for one in found} == {"TW419"}
    assert any(says in f"{one.message}; {one.fix}" for one in found)


@pytest.mark.parametrize("words", [
    ("torchrun", "t.py", "$(OUT)", "$(PET_NNODES)", "$(JOB_COMPLETION_INDEX)", "$$(OTHER)", "${model.size}", "$OTHER", "$5"),
    ("bash", "-c", "torchrun t.py $OUT ${OUT} $(hostname) $(nproc)"),
])  # fmt: skip
def test_words_that_somebody_replaces_or_that_are_text(words: tuple[str, ...]) -> None:
    assert codes(command(*words) | {"env": {"OUT": "/out"}}) == []


def test_a_whole_secret_may_have_any_variable() -> None:
    assert codes(command("torchrun", "t.py", "$(OTHER)") | {"env_from": [{"secret": "keys"}]}) == []


def test_variables_of_an_override_are_there() -> None:
    added = {"overrides": {"pod": {"node": {"containers": [{"name": "trainer", "env": [{"name": "OTHER", "value": "1"}]}]}}}}
    assert codes(command("torchrun", "t.py", "$(OTHER)") | added) == []


@pytest.mark.parametrize("text", ["start --rank $NODE_RANK", "torchrun --node_rank=${NODE_RANK} t.py", "start $(NNODES)"])
def test_nodes_of_an_elastic_run_have_no_number(text: str) -> None:
    found = findings({**on("pytorch-job"), **shell(text), **ELASTIC}, ON_PYTORCH)
    assert "nodes of an elastic run come and go" in next(one.message for one in found if one.code == "TW457")


@pytest.mark.parametrize("text", [
    "start ${NODE_RANK:-0}", "NODE_RANK=$HOSTNAME; start $NODE_RANK", "torchrun --no_python bash -c 'echo $MASTER_ADDR'",
])  # fmt: skip
def test_what_the_command_knows_otherwise_is_fine(text: str) -> None:
    assert "TW457" not in codes({**on("pytorch-job"), **shell(text), **ELASTIC}, ON_PYTORCH)


@pytest.mark.parametrize(("target", "text", "says"), [
    ("job-set", "torchrun --nnodes=2 --node_rank=$RANK t.py", "reads RANK, which no pod of role node has: a shell puts nothing"),
    ("indexed-job", "python t.py --rank ${RANK} --of 16", "write $NODE_RANK, the pod's number"),
    ("indexed-job", "accelerate launch --num_machines 2 --num_processes $WORLD_SIZE --machine_rank $NODE_RANK --main_process_ip "
     "$MASTER_ADDR t.py", "write 16 for the ranks of all pods, or 2 for the number of pods"),
    ("volcano-job", "torchrun --node_rank=$JOB_COMPLETION_INDEX t.py", "the command reads JOB_COMPLETION_INDEX"),
    ("indexed-job", "torchrun --node_rank=$VC_TASK_INDEX t.py", "write $NODE_RANK"),
])  # fmt: skip
def test_what_another_kind_of_object_has_is_empty_in_a_shell(target: str, text: str, says: str) -> None:
    run = {**on(target), **shell(text)}
    said = [one for one in findings(run, profile_for(target)) if one.code == "TW457"]
    assert [says in f"{one.message}; {one.fix}" for one in said] == [True]


@pytest.mark.parametrize("text", [
    "for RANK in 0 1; do start $RANK & done", "export RANK=$NODE_RANK; start $RANK", ". /etc/ranks; start $RANK",
    "start ${RANK:-0} '$RANK' \\$RANK # $RANK", "torchrun --no_python wrap.sh --rank $RANK", "srun start $RANK",
    "start $JOB_COMPLETION_INDEX $PET_NODE_RANK", "${RANK:=0}; start $RANK", "start <<E\n$RANK\nE",
])  # fmt: skip
def test_what_a_script_sets_or_does_not_read_is_fine(text: str) -> None:
    assert "TW457" not in codes(shell(text))


def test_a_pod_of_a_pytorchjob_has_rank_and_one_with_an_override_may() -> None:
    start = shell("torchrun --node_rank=$RANK --nnodes=2 t.py")
    assert codes({**on("pytorch-job"), **start}, ON_PYTORCH) == []
    added = {"overrides": {"pod": {"node": {"containers": [{"name": "trainer", "env": [{"name": "RANK", "value": "1"}]}]}}}}
    assert "TW457" not in codes(start | added)
    assert "TW457" not in codes(start | {"env_from": [{"secret": "keys"}]})


def test_a_further_role_has_no_port_of_rank_0() -> None:
    roles: Data = {"roles": {"data": {"pods": 1, "command": ["sh", "-c", "serve $MASTER_ADDR:$MASTER_PORT $NODE_RANK"]}}}
    run = {**on("job-set"), **command("torchrun", "t.py"), **roles}
    (finding,) = [one for one in findings(run, profile_for("job-set")) if one.code == "TW457"]
    assert (finding.where.pointer, "reads MASTER_PORT" in finding.message) == ("/roles/data/command", True)


def test_the_fix_names_what_pods_have_of_the_same() -> None:
    jax: Data = {"topology": {"kind": "jax", "nodes": 2, "gpus_per_node": 8}}
    (finding,) = [one for one in findings(shell("python t.py --id $RANK") | jax) if one.code == "TW457"]
    assert finding.fix == "write $JAX_PROCESS_ID, the pod's number"
    alone: Data = {"topology": {"kind": "independent", "nodes": 2, "gpus_per_node": 8}}
    (finding,) = [one for one in findings(shell("torchrun --master_addr=$MASTER_ADDR t.py") | alone) if one.code == "TW457"]
    assert "the command reads MASTER_ADDR" in finding.message


def test_a_script_may_stand_in_args_after_the_end_of_options() -> None:
    run = command("bash", "-c", "--")
    run["workload"] |= {"args": ["torchrun --nnodes=$NNODES --node_rank=$NODE_RANK t.py"]}
    assert codes(run) == []


def test_an_elastic_run_is_torchruns() -> None:
    def said(*words: str) -> str:
        found = findings({**on("pytorch-job"), **command(*words), **ELASTIC}, ON_PYTORCH)
        return "\n".join(f"{one.code} {one.message}; {one.fix}" for one in found)

    text = said("accelerate", "launch", "t.py")
    assert ("write torchrun in its place" in text, "NODE_RANK" in text) == (True, False)
    assert "TW406 nodes of an elastic run have no numbers" in said("torchrun", "--rdzv_backend=static", "t.py")
    assert "TW406" not in said("torchrun", "--rdzv_backend=c10d", "t.py")


def test_what_cannot_be_told_is_refused_where_the_run_asks_for_it() -> None:
    run: Data = {**on("pytorch-job"), **command("torchrun", "t.py"), **ELASTIC}
    run["workload"] |= {"launcher_variables": True}
    (finding,) = [one for one in findings(run, ON_PYTORCH) if one.code == "TW457"]
    assert finding.where.pointer == "/workload/launcher_variables"


def test_before_an_entrypoint_nothing_can_stand() -> None:
    nothing: Data = dict.fromkeys(("batch", "learning_rate", "trainer_version"))
    run = {**on("pytorch-job"), **nothing, "workload": {"kind": "command", "args": ["--rank", "$(NODE_RANK)"]}}
    (finding,) = [one for one in findings(run, ON_PYTORCH) if one.code == "TW457"]
    assert "nothing can hand it on to an image's own entrypoint" in finding.message
    assert codes({**nothing, "workload": {"kind": "command", "args": ["--rank", "$(NODE_RANK)"]}}) == []


def test_the_fix_spells_out_the_options() -> None:
    text = message(command("accelerate", "launch", "t.py"))
    assert "--num_machines $(NNODES) --num_processes 16 --machine_rank $(NODE_RANK) --main_process_ip $(MASTER_ADDR)" in text
    assert "-n 8 --world_size 16" in message(command("composer", "t.py"))
    assert "`node-0 slots=8`" in message(command("deepspeed", "t.py"))
    text = message(command("accelerate", "launch", "--num_machines=2", "--num_processes=16", "t.py"))
    assert "without --machine_rank and --main_process_ip accelerate cannot tell which of 2 pods it is in" in text


@pytest.mark.parametrize(("words", "names"), [
    (("python", "x.py", "--rank=$(NODE_RANK)"), ["NODE_RANK"]),
    (("bash", "-c", "python x.py --rank=$(cat /rank)"), []),
    (("python", "x.py", "$$(A)"), []),
])  # fmt: skip
def test_the_command_of_a_script_is_started_as_it_is_written(words: tuple[str, ...], names: list[str]) -> None:
    said = [one for one in findings(script(*words)) if one.code == "TW419"]
    assert [one.where.pointer for one in said] == ["/workload/command" for _ in names]
    assert all(f"let the program read {name}" in one.fix for one, name in zip(said, names, strict=True))
