"""A run of many pods becomes one of this machine's, and a step stays what it was."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.contract.specifications import BOOSTING, C10D, ELASTIC_BATCH, MPI, RAY, RESNET, TF_CONFIG, TRACKER, changed

from trainwright_trainer.commands.local import local_run, with_directory
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.failures import InvalidRunError

RESNET_ON_DIGITS = {"work.task": "image-classification", "work.model": RESNET, "work.data": {"source": "digits"}}


def here(folder: Path, changes: dict[str, Any], processes: int | None = None) -> RunSpec:
    spec = RunSpec.model_validate(changed(changes))
    run = local_run(spec, folder / "given.json", folder, processes)
    assert RunSpec.model_validate_json(run.path.read_bytes()) == run.spec
    return run.spec


@pytest.mark.parametrize("changes", [
    {},
    {"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH},
    {"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH | {"keep": "micro"}, "work.learning_rate.scaling": "linear"},
    {"world.rendezvous": RAY, "world.node_index_env": None, "world.control_port": None},
    {"world.rendezvous": MPI | {"host": "run-0", "port": 29500}, "world.node_index_env": None, "world.control_port": None},
], ids=["static", "c10d", "c10d with scaling", "ray", "mpi"])
@pytest.mark.parametrize("processes", [None, 1, 8])
def test_a_step_sees_the_same_samples(changes: dict[str, Any], processes: int | None, tmp_path: Path) -> None:
    spec = here(tmp_path, changes, processes)
    assert isinstance(spec.work, Training)
    assert spec.world.rendezvous.kind == "static"
    assert (spec.world.nodes, spec.world.size) == (1, processes or 4)
    assert spec.work.batch.micro * spec.work.batch.accumulation * spec.world.size == 32
    assert spec.world.meeting.host == "127.0.0.1"


@pytest.mark.parametrize(("processes", "degree"), [(None, 2), (8, 2), (2, 2), (1, None)])
def test_groups_of_a_shard_are_kept_where_the_ranks_here_divide_into_them(
    processes: int | None, degree: int | None, tmp_path: Path
) -> None:
    spec = here(tmp_path, {"work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 2}}, processes)
    assert isinstance(spec.work, Training)
    assert spec.work.fsdp2 is not None
    assert spec.work.fsdp2.shard_degree == degree


NO_NODE = {"world.node_index_env": None, "world.control_port": None}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "horovod": ({"work.engine": "horovod", "world.rendezvous": MPI, **NO_NODE}, "trainwright-trainer supervise -- mpirun"),
    "tensorflow": (
        {"work.engine": "tensorflow", "world.rendezvous": TF_CONFIG, **NO_NODE, **RESNET_ON_DIGITS},
        "engine tensorflow has one process a pod, and the run has 4; add --processes 1",
    ),
    "deepspeed": (
        {"work.engine": "deepspeed", "work.deepspeed": {"config": "/none/ds_config.json"}},
        "deepspeed.config /none/ds_config.json is not on this machine, and not beside",
    ),
}


@pytest.mark.parametrize("engine", REFUSED)
def test_what_one_pod_cannot_play_is_refused_in_a_sentence(engine: str, tmp_path: Path) -> None:
    changes, says = REFUSED[engine]
    with pytest.raises(InvalidRunError, match=re.escape(says)):
        here(tmp_path, changes)


def test_tensorflow_is_played_by_one_process(tmp_path: Path) -> None:
    spec = here(tmp_path, REFUSED["tensorflow"][0], 1)
    assert isinstance(spec.work, Training)
    assert spec.world.rendezvous.kind == "tf-config"
    assert (spec.work.batch.micro, spec.work.batch.accumulation) == (4, 8)


def test_boosting_is_played_by_one_process(tmp_path: Path) -> None:
    changes = {"work": BOOSTING, "world.processes_per_node": 1, "world.rendezvous": TRACKER}
    with pytest.raises(InvalidRunError, match="add --processes 1"):
        here(tmp_path, changes)
    spec = here(tmp_path, changes, 1)
    assert spec.world.rendezvous.kind == "dmlc-tracker"


def test_deepspeeds_configuration_beside_the_specification_gets_the_batch(tmp_path: Path) -> None:
    beside, folder = tmp_path / "given", tmp_path / "here"
    beside.mkdir()
    folder.mkdir()
    config = {"train_batch_size": 32, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 3}}
    (beside / "ds_config.json").write_text(json.dumps(config))
    changes = {"work.engine": "deepspeed", "work.deepspeed": {"config": "/etc/trainwright/ds_config.json"}}
    spec = RunSpec.model_validate(changed(changes))
    run = local_run(spec, beside / "run.json", folder, 2)
    assert isinstance(run.spec.work, Training)
    assert run.spec.work.deepspeed is not None
    adapted = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}
    assert json.loads(Path(run.spec.work.deepspeed.config).read_text()) == config | adapted


@pytest.mark.parametrize(("text", "says"), [
    ("[1]", "holds a list; it must be a JSON object"), ("{", "is not JSON"), (None, "cannot be read: Is a directory"),
])
def test_a_configuration_of_deepspeed_that_is_none_is_refused(text: str | None, says: str, tmp_path: Path) -> None:
    config = tmp_path / "ds_config.json"
    if text is None:
        config.mkdir()
    else:
        config.write_text(text)
    with pytest.raises(InvalidRunError, match=re.escape(says)):
        here(tmp_path, {"work.engine": "deepspeed", "work.deepspeed": {"config": "/none/ds_config.json"}})


def test_ports_are_free_ones_but_for_one_that_is_given(tmp_path: Path) -> None:
    spec = here(tmp_path, {})
    assert len({spec.http_port, spec.world.meeting.port, spec.world.meeting.control_port, 9400, 29400, 29500}) == 6
    run = local_run(RunSpec.model_validate(changed({})), tmp_path / "given.json", tmp_path, http_port=9400)
    assert run.spec.http_port == 9400


@pytest.mark.parametrize("work", [None, BOOSTING, {"kind": "script", "command": ["x"]}], ids=["training", "boosting", "script"])
def test_its_state_goes_where_it_is_told(work: dict[str, Any] | None) -> None:
    changes = {} if work is None else {"work": work}
    if work is BOOSTING:
        changes["world.rendezvous"] = TRACKER
    spec = RunSpec.model_validate(changed(changes))
    assert with_directory(spec, "/elsewhere").state_directory == "/elsewhere"


@pytest.mark.parametrize("directory", [None, "/elsewhere"])
def test_a_script_is_told_its_directory(directory: str | None, tmp_path: Path) -> None:
    work = {"kind": "script", "command": ["x"], "state_directory": directory}
    run = local_run(RunSpec.model_validate(changed({"work": work})), tmp_path / "given.json", tmp_path)
    assert run.environment({}).get("TRAINWRIGHT_CHECKPOINT_DIRECTORY") == directory


def test_the_pod_is_on_the_loopback_interface_and_no_task_of_tensorflow(tmp_path: Path) -> None:
    run = local_run(RunSpec.model_validate(changed({})), tmp_path / "given.json", tmp_path)
    environment = run.environment({"TF_CONFIG": "{}", "HOME": "/root", "GLOO_SOCKET_IFNAME": "eth0"})
    assert "TF_CONFIG" not in environment
    assert environment["GLOO_SOCKET_IFNAME"] == "eth0"
    assert environment[run.spec.world.meeting.node_index_env] == "0"
    assert environment["TRAINWRIGHT_BIND_ADDRESS"] == "127.0.0.1"
