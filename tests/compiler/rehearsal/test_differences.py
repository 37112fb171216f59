"""A run on GPUs is scaled down to one machine, what cannot be played is left out, and every difference is stated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.example import compiled
from tests.compiler.manifest.data.prepared import own_job, pod_of, prepared
from tests.compiler.rehearsal.stage import (
    COMMAND,
    DIGITS,
    JOB,
    LLAMA,
    SCRIPT,
    Manifest,
    edit_specification,
    manifests,
    of_kind,
    options,
    play,
    stated,
)
from tests.compiler.targets import on, profile_for

from trainwright.rehearsal.scale import Scaled, scale_down
from trainwright.rehearsal.stated.objects import find_objects, objects_in
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.data import PythonSource, TokenFiles
from trainwright_trainer.contract.spec import Preflight

STDLIB = {"source": "python-stdlib", "tokenizer": "bpe", "vocabulary": 32000, "sequence_length": 2048}


def scaled(found: list[Manifest], **changes: Any) -> Scaled:
    return scale_down(find_objects(found), options(**changes))


def spec_of(result: Scaled) -> RunSpec:
    assert result.specification is not None
    return result.specification.spec


def gpu_run(**work: Any) -> list[Manifest]:
    found = objects_in(LLAMA)
    edit_specification(found, lambda document: document["work"].update(work))
    return found


def test_a_run_on_cpus_stays_as_it_is() -> None:
    found = scaled(objects_in(DIGITS))
    assert not found.differences
    assert found.objects == find_objects(objects_in(DIGITS))


def test_a_run_on_gpus_loses_its_size() -> None:
    found = scaled(objects_in(LLAMA))
    spec = spec_of(found)
    assert (spec.world.nodes, spec.world.processes_per_node, spec.world.device) == (2, 1, "cpu")
    assert len(found.objects.slots) == 2
    assert isinstance(spec.work, Training)
    assert (spec.work.duration.steps, spec.work.model.parameters or 0) < (21, 10_000_000)
    text = " ".join(map(str, found.differences))
    assert "2 instead of 4" in text
    assert 'world.device "cuda" -> "cpu"' in text
    assert "work.model.num_hidden_layers 22 -> 2" in text
    assert "work.data.sequence_length 2048 -> 15" in text


@pytest.mark.parametrize(("path", "nodes", "size"), [
    (DIGITS, None, "2 pods"),
    (DIGITS, 1, "1 of 2 pods, world size 2 -> 1, batch 64 -> 32"),
    (DIGITS, 5, "2 pods"),
    (LLAMA, 3, "3 of 4 pods, world size 32 -> 3, batch 512 -> 24"),
    (COMMAND, 1, "1 of 2 pods"),
])
def test_what_fewer_nodes_change_is_said_first(path: Path, nodes: int | None, size: str) -> None:
    """A command says nothing of its ranks."""
    assert scaled(objects_in(path), nodes=nodes).size == size


def test_a_piece_of_the_token_files_will_do() -> None:
    """Their vocabulary stays, and so the model's; only the cluster has as many sequences as the run states."""
    found = scaled(objects_in(LLAMA))
    spec = spec_of(found)
    assert isinstance(spec.work, Training)
    assert spec.work.data == TokenFiles(path="/data/pretraining", sequence_length=15, vocabulary=32000, held_out=0.001)
    assert spec.work.model.model_dump()["vocab_size"] == 32000
    assert "work.data.samples 10260711 -> unset" in " ".join(map(str, found.differences))


def test_a_tokenizer_that_is_learned_here_gets_fewer_tokens() -> None:
    found = scaled(gpu_run(data=STDLIB))
    spec = spec_of(found)
    assert isinstance(spec.work, Training)
    assert isinstance(spec.work.data, PythonSource)
    assert (spec.work.data.files, spec.work.data.sequence_length) == (100, 128)
    text = " ".join(map(str, found.differences))
    assert "work.model.vocab_size 32000 -> 1024" in text
    assert "work.data.vocabulary 32000 -> 1024" in text


def test_nothing_is_sent_to_a_service_and_no_node_is_measured() -> None:
    found = gpu_run(metrics=[{"to": "tensorboard"}, {"to": "wandb", "project": "nlp"}])
    thresholds = {"min_tflops": 400, "max_storage_seconds": 20, "max_clock_skew_seconds": 1}
    preflight = {"when": "always", **thresholds}
    edit_specification(found, lambda document: document["lifecycle"].update(preflight=preflight))
    result = scaled(found)
    spec = spec_of(result)
    assert isinstance(spec.work, Training)
    assert [getattr(sink, "mode", None) for sink in spec.work.metrics or ()] == [None, "offline"]
    assert spec.lifecycle.preflight == Preflight(when="always")
    text = " ".join(map(str, result.differences))
    assert "lifecycle.preflight.min_tflops 400.0 -> unset" in text
    assert '"offline"' in text


def test_a_script_on_gpus_keeps_its_command() -> None:
    found = objects_in(SCRIPT)
    before, after = json.loads(of_kind(found, "ConfigMap")["data"]["run.json"]), spec_of(scaled(found))
    assert after.work.model_dump(mode="json", exclude_none=True) == before["work"]
    assert (after.world.device, after.world.processes_per_node) == ("cpu", 1)


def test_an_opaque_command_on_gpus_has_one_rank_in_a_pod() -> None:
    found = scaled(objects_in(COMMAND))
    container, before = found.objects.slots[0].spec.main, find_objects(objects_in(COMMAND)).slots[0].spec.main
    assert container.command == before.command
    values = {variable.name: variable.value for variable in container.env}
    assert (values["PET_NNODES"], values["PET_NPROC_PER_NODE"], values["DS_ACCELERATOR"]) == ("2", "1", "cpu")
    assert "PET_NPROC_PER_NODE -> 1" in " ".join(map(str, found.differences))


def test_fewer_pods_of_an_opaque_command_know_how_many_they_are() -> None:
    found = scaled(objects_in(COMMAND), nodes=1)
    assert len(found.objects.slots) == 1
    assert {"PET_NNODES": "1"}.items() <= {one.name: one.value for one in found.objects.slots[0].spec.main.env}.items()


GPUS = {"limits": {"nvidia.com/gpu": "8"}}


def of_pods(result: Scaled) -> list[str]:
    containers = [one for slot in result.objects.slots for one in slot.spec.containers]
    return list(dict.fromkeys(" ".join((*one.command, *one.args)) for one in containers))


@pytest.mark.parametrize(("command", "after"), [
    ("torchrun --nnodes=4 --nproc-per-node=8 x.py --nnodes 5", "torchrun --nnodes=2 --nproc-per-node=1 x.py --nnodes 5"),
    ("torchrun --nnodes 1:4 --nproc_per_node gpu /code/program.py", "torchrun --nnodes 1:2 --nproc_per_node 1 /code/program.py"),
    ("accelerate launch --num_machines 4 --num_processes 32 x.py", "accelerate launch --num_machines 2 --num_processes 2 x.py"),
    ("torchrun --nnodes=$(N) x.py", "torchrun --nnodes=$(N) x.py"),
    ("python train.py --nnodes 4", "python train.py --nnodes 4"),
])
@pytest.mark.parametrize("in_shell", [False, True])
def test_a_launcher_is_told_how_many_pods_are_played(command: str, after: str, in_shell: bool) -> None:
    words = ["bash", "-c", f"cd /code && {command}; echo done"] if in_shell else command.split()
    result = scaled(manifests("", pods=4, command=words, resources=GPUS))
    assert of_pods(result) == [f"bash -c cd /code && {after}; echo done" if in_shell else after]
    said = [str(one) for one in result.differences if one.subject == "command"]
    assert bool(said) == (command != after)
    if "--nnodes=4" in command:
        assert said == ["command: torchrun --nnodes 4 -> 2", "command: torchrun --nproc-per-node 8 -> 1"]


def test_fewer_nodes_have_as_many_ranks_each() -> None:
    words = ["accelerate", "launch", "--num_machines=4", "--num_processes=8", "x.py"]
    result = scaled(manifests("", pods=4, command=words), nodes=3)
    assert of_pods(result) == ["accelerate launch --num_machines=3 --num_processes=6 x.py"]


@pytest.mark.parametrize(("nodes", "ranks", "hosts"), [(None, 2, 2), (1, 1, 1), (3, 3, 3)])
def test_mpirun_starts_as_many_ranks_as_there_are_slots(nodes: int | None, ranks: int, hosts: int) -> None:
    line = "until getent hosts x; do sleep 1; done; mpirun -np {} -N {} --bind-to none /opt/x -n 32"
    launcher = {"name": "mpi", "image": "x", "command": ["bash", "-c", line.format(32, 8)]}
    worker = {"name": "mpi", "image": "x", "command": ["sshd"], "resources": GPUS}
    found = [{
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "nccl", "namespace": "training"},
        "spec": {"slotsPerWorker": 8, "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
            "Worker": {"replicas": 4, "template": {"spec": {"containers": [worker]}}},
        }},
    }]
    result = scaled(found, nodes=nodes)
    assert f"bash -c {line.format(ranks, 1)}" in of_pods(result)
    assert result.objects.config_maps["nccl-config"].data["hostfile"].count("slots=1\n") == hosts
    assert f"command: mpirun -np 32 -> {ranks}" in map(str, result.differences)


@pytest.mark.parametrize(("device", "each"), [(GPUS, 1), ({}, 8)])
def test_a_list_of_hosts_that_the_run_brings_is_cut(device: Manifest, each: int) -> None:
    found = manifests("", pods=4, command=["deepspeed", "--hostfile", "/code/hosts", "--num_gpus", "8", "x.py"], resources=device)
    of_kind(found, "ConfigMap")["data"]["hosts"] = "".join(f"node-{index} slots=8\n" for index in range(4))
    result = scaled(found, nodes=2)
    assert result.objects.config_maps[JOB].data["hosts"] == f"node-0 slots={each}\nnode-1 slots={each}\n"


def test_lists_of_hosts_name_the_pods_that_are_played() -> None:
    service = {"pods": 4, "image": f"registry.example.com/service@sha256:{'a' * 64}", "command": ["python", "-c", "1"]}
    run = on("job-set", roles={"data-service": service}, gang=False, env={"PEERS": "a,b"})
    before = find_objects([*compiled(run, profile_for("job-set")).manifests])
    found = scale_down(before, options())
    hosts = [slot.made.host for slot in found.objects.slots if slot.made.role == "data-service"]
    assert len(hosts) == 2
    for slot in found.objects.slots:
        values = {one.name: one.value for one in slot.spec.main.env}
        assert values["DATA_SERVICE_HOSTS"] == ",".join(hosts)
        assert values["PEERS"] == "a,b"
    assert f"DATA_SERVICE_HOSTS -> {','.join(hosts)}" in " ".join(map(str, found.differences))


@pytest.mark.parametrize("path", [DIGITS, LLAMA], ids=lambda path: path.name)
def test_fewer_pods_where_asked(path: Path) -> None:
    found = scaled(objects_in(path), nodes=1)
    assert len(found.objects.slots) == spec_of(found).world.nodes == 1


def test_two_runs_that_differ_in_size_only_look_alike_when_scaled() -> None:
    larger = gpu_run(batch={"micro": 64, "accumulation": 16})
    assert spec_of(scaled(larger)).work == spec_of(scaled(objects_in(LLAMA))).work


@settings(max_examples=25)
@given(
    head=st.integers(1, 64).map(lambda n: 2 * n), heads=st.integers(1, 64), groups=st.integers(1, 8), layers=st.integers(1, 100),
    inner=st.integers(1, 30000), tied=st.booleans(),
)
def test_a_smaller_llama_is_still_one(head: int, heads: int, groups: int, layers: int, inner: int, tied: bool) -> None:
    model = {
        "architecture": "llama", "vocab_size": 32000, "hidden_size": head * heads * groups, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads * groups, "num_key_value_heads": heads,
        "max_position_embeddings": 2048, "tie_word_embeddings": tied,
    }
    spec = spec_of(scaled(gpu_run(model=model)))
    assert spec.world.device == "cpu"
    assert isinstance(spec.work, Training)
    assert (spec.work.model.parameters or 0) < 10_000_000


def test_a_model_keeps_its_token_for_the_mask() -> None:
    bert = {"architecture": "bert", "vocab_size": 32001, "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 2048}
    spec = spec_of(scaled(gpu_run(model=bert, task="masked-lm", data=STDLIB)))
    assert isinstance(spec.work, Training)
    assert spec.work.model.model_dump()["vocab_size"] == 1025


def test_a_model_whose_vocabulary_is_unknown_reads_the_tokens_it_was_made_for() -> None:
    spec = spec_of(scaled(gpu_run(model={"architecture": "transformers", "model_type": "gpt2"}, data=STDLIB)))
    assert isinstance(spec.work, Training)
    assert spec.work.data.model_dump()["vocabulary"] == 32000


IMAGES = {"source": "digits"}


@pytest.mark.parametrize(
    "model",
    [
        {"architecture": "vit", "image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 768,
         "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "num_labels": 10},
        {"architecture": "resnet", "num_channels": 1, "image_size": 8, "num_labels": 10},
        {"architecture": "transformers", "model_type": "beit", "config": {"num_hidden_layers": 24}},
    ],
    ids=lambda model: str(model["architecture"]),
)
def test_other_architectures_shrink_too(model: dict[str, Any]) -> None:
    spec = spec_of(scaled(gpu_run(model=model, task="image-classification", data=IMAGES)))
    assert spec.world.device == "cpu"
    assert isinstance(spec.work, Training)
    if model["architecture"] == "transformers":
        assert spec.work.model.model_dump()["config"] == {"num_hidden_layers": 2}
    else:
        assert (spec.work.model.parameters or 0) < 1_000_000


READ = "from pathlib import Path; print(Path('/data/digits/a.txt').read_text())"


def waiting_run() -> list[dict[str, Any]]:
    """A pod with the very container that waits, and the folder of its data."""
    found = manifests(READ)
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    compiled = pod_of(own_job(prepared()))
    spec["initContainers"] = compiled["initContainers"]
    data = [mount for mount in compiled["containers"][0]["volumeMounts"] if mount["name"] == "checkpoints"]
    main = spec["containers"][0]
    main["volumeMounts"] = [mount for mount in main["volumeMounts"] if mount["name"] == "code"] + data
    spec["volumes"].append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}})
    return found


def test_nothing_waits_and_a_folder_stands_for_the_data(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("my own digits")
    outcome, recorder = play(waiting_run(), tmp_path / "w", mounts={"/data/digits": tmp_path / "mine"})
    assert outcome.status == "Complete"
    assert recorder.said(0) == ["my own digits"]
    said = "data: is not fetched here, and no pod waits for it: name a folder for the path with --mount PATH=FOLDER"
    assert said in list(stated(recorder))


def test_a_volume_that_nothing_here_holds_is_named(tmp_path: Path) -> None:
    found = manifests(READ)
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    spec["volumes"][1] = {"name": "data", "nfs": {"server": "nfs.example.com", "path": "/export"}}
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.status == "Failed"
    said = "volume data: /data (nfs) -> an empty folder of each pod's own: name one for all pods with --mount /data=FOLDER"
    assert said in list(stated(recorder))
    (tmp_path / "mine" / "digits").mkdir(parents=True)
    (tmp_path / "mine" / "digits" / "a.txt").write_text("my own digits")
    outcome, recorder = play(found, tmp_path / "w", mounts={"/data": tmp_path / "mine"})
    assert (outcome.status, recorder.said(0)) == ("Complete", ["my own digits"])
    assert not [one for one in stated(recorder) if one.startswith("volume ")]


def test_what_only_the_cluster_can_have_is_taken_as_there(tmp_path: Path) -> None:
    found = manifests("")
    named = {"serviceAccountName": "trainer", "priorityClassName": "high", "imagePullSecrets": [{"name": "pull"}]}
    of_kind(found, "Job")["spec"]["template"]["spec"].update(named)
    found.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "training"}})
    _, recorder = play(found, tmp_path / "w")
    [said] = [text for text in stated(recorder) if text.startswith("taken as there: ")]
    assert said.startswith("taken as there: ServiceAccount trainer, PriorityClass high: no file here says so")
