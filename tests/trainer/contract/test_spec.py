"""Which worlds there are, and which work fits into which."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.trainer.contract.specifications import (
    BASE,
    BOOSTING,
    C10D,
    ELASTIC_BATCH,
    MPI,
    RAY,
    RESNET,
    SCRIPT,
    STATIC,
    TF_CONFIG,
    TRACKER,
    changed,
)

from trainwright_trainer.contract import RunSpec

ON_DIGITS = {"work.task": "image-classification", "work.model": RESNET, "work.data": {"source": "digits"}}
DEEPSPEED = {"work.engine": "deepspeed", "work.deepspeed": {"config": "/etc/trainwright/ds_config.json"}}
WITH_HOST = MPI | {"host": "run-worker-0", "port": 29500}
UNNUMBERED = {"world.node_index_env": None, "world.control_port": None}

VALID: dict[str, dict[str, Any]] = {
    "static": {},
    "fsdp2": {"work.engine": "fsdp2", "work.fsdp2": {"reshard_after_forward": False, "offload_weights": True}},
    "fsdp2 as it is": {"work.engine": "fsdp2"},
    "ddp with larger buckets": {"work.ddp": {"bucket_cap_mb": 100}},
    "deterministic": {"work.deterministic": True},
    "timed convolutions": ON_DIGITS | {"work.cudnn_benchmark": True},
    "fsdp2 in groups": {"work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 2}},
    "fsdp2 in groups of a node, elastic": UNNUMBERED | {
        "work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 2}, "world.rendezvous": C10D, "work.batch": ELASTIC_BATCH,
    },
    "fsdp2 in groups of nodes, elastic of one size": UNNUMBERED | {
        "work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 4}, "world.rendezvous": C10D | {"min_nodes": 2, "max_nodes": 2},
        "work.batch": ELASTIC_BATCH,
    },
    "deepspeed": DEEPSPEED,
    "deepspeed under mpirun": DEEPSPEED | UNNUMBERED | {"world.rendezvous": WITH_HOST},
    "elastic": UNNUMBERED | {"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH},
    "elastic that moves": {
        "world.rendezvous": C10D, "work.batch": ELASTIC_BATCH | {"keep": "micro"},
        "work.learning_rate": {"peak": 0.1, "scaling": "linear"},
    },
    "an elastic script": UNNUMBERED | {"world.rendezvous": C10D, "work": SCRIPT},
    "horovod": UNNUMBERED | {"world.rendezvous": MPI, "work.engine": "horovod"},
    "ddp under mpirun": UNNUMBERED | {"world.rendezvous": WITH_HOST},
    "tensorflow": UNNUMBERED | ON_DIGITS | {
        "world.rendezvous": TF_CONFIG, "work.engine": "tensorflow",
        "world.processes_per_node": 1, "world.replicas_per_process": 8,
    },
    "xgboost": {"world.rendezvous": TRACKER, "work": BOOSTING},
    "ray": UNNUMBERED | {"world.rendezvous": RAY},
    "llama 3.1": {"work.model": BASE["work"]["model"] | {"rope_scaling": {}, "rms_norm_eps": 1e-5}},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_a_specification_survives_its_file(changes: dict[str, Any]) -> None:
    spec = RunSpec.model_validate(changed(changes))
    assert RunSpec.model_validate_json(spec.model_dump_json(exclude_none=True)) == spec


def test_another_world_has_no_node_0_known_beforehand() -> None:
    world = RunSpec.model_validate(changed(VALID["tensorflow"])).world
    assert (world.size, world.replicas) == (2, 16)
    with pytest.raises(TypeError, match="rendezvous tf-config has no node 0"):
        _ = world.meeting


def test_a_boosting_run_has_a_state_directory() -> None:
    assert RunSpec.model_validate(changed(VALID["xgboost"])).state_directory == "/checkpoints/x"


@pytest.mark.parametrize(("changes", "message"), [
    ({"world.rendezvous": {**STATIC, "kind": "etcd"}}, "does not match any of the expected tags"),
    ({"world.node_index_env": None}, "rendezvous static needs node_index_env"),
    ({"world.control_port": None}, "rendezvous static needs control_port"),
    ({"world.control_port": None, "world.rendezvous": TRACKER, "work": BOOSTING}, "rendezvous dmlc-tracker needs control_port"),
    ({"world.node_index_env": None, "world.rendezvous": TRACKER, "work": BOOSTING},
     "rendezvous dmlc-tracker needs node_index_env"),
    ({"world.rendezvous": C10D | {"min_nodes": 5}}, "min_nodes 5 is above max_nodes 4"),
    ({"world.rendezvous": C10D, "world.nodes": 5}, "nodes 5 is not between rendezvous.min_nodes 1 and max_nodes 4"),
    ({"world.rendezvous": MPI | {"host": "run-0"}}, "give both of host and port"),
    ({"world.rendezvous": MPI | {"hostfile": "hostfile"}}, "String should match pattern"),
    ({"world.rendezvous": MPI | {"role_env": "A=B"}}, "String should match pattern"),
    ({"world.rendezvous": C10D}, "say in batch.keep what stays"),
    ({"work.batch": ELASTIC_BATCH}, "fixed by rendezvous static; remove batch.keep and batch.effective"),
    ({"work.batch": {"micro": 4, "keep": "micro"}}, "give both of keep and effective"),
    ({"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH | {"effective": 33}}, "batch.effective is 33, and micro x .* is 32"),
    ({"work.learning_rate": {"peak": 1, "scaling": "linear"}}, "set batch.keep to micro"),
    ({"work.engine": "horovod"}, "engine horovod cannot meet by rendezvous static; use mpi-hostfile"),
    (DEEPSPEED | {"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH}, "engine deepspeed cannot meet by rendezvous c10d"),
    ({"world.rendezvous": MPI}, "engine ddp meets through torch: it needs world.rendezvous.host"),
    ({"world.rendezvous": TRACKER}, "engine ddp cannot meet by rendezvous dmlc-tracker; use static or c10d or"),
    ({"work": BOOSTING}, "work xgboost needs rendezvous dmlc-tracker instead of static"),
    ({"world.replicas_per_process": 2}, "engine ddp has one replica a process"),
    ({"work.engine": "horovod", "world.rendezvous": MPI, "work.gradient_reduction": "bf16"},
     "engine horovod does not read gradient_reduction bf16; set it to fp16 or fp32"),
    ({"work.engine": "deepspeed"}, "engine deepspeed needs deepspeed.config"),
    ({"work.deepspeed": {"config": "/x.json"}}, "engine ddp does not read deepspeed; remove it"),
    ({"work.fsdp2": {}}, "engine ddp does not read fsdp2; remove it"),
    ({"work.engine": "fsdp2", "work.ddp": {}}, "engine fsdp2 does not read ddp; remove it"),
    ({"work.cudnn_benchmark": True}, "architecture llama has no convolutions for cudnn_benchmark to time"),
    (ON_DIGITS | {"work.cudnn_benchmark": True, "work.deterministic": True}, "cudnn_benchmark picks kernels by a stopwatch"),
    ({"work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 3}}, "fsdp2.shard_degree 3 does not divide the 4 ranks of 2 x 2"),
    ({"work.engine": "fsdp2", "work.fsdp2": {"shard_degree": 4}, "world.rendezvous": C10D, "work.batch": ELASTIC_BATCH},
     "fsdp2.shard_degree 4 does not divide the 2 ranks of a node, .* so a group would be torn"),
    ({"work.engine": "tensorflow", "world.rendezvous": TF_CONFIG},
     "engine tensorflow cannot build architecture llama; use resnet"),
])
def test_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RunSpec.model_validate(changed(changes))
