"""What the program refuses before it imports TensorFlow, which is not in this environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.trainer.contract.specifications import BOOSTING, RESNET, TF_CONFIG, TRACKER, changed

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.failures import InvalidRunError, PodError, TopologyMismatchError
from trainwright_trainer.tensorflow.program import find_place

RUN = {
    "world.node_index_env": None, "world.control_port": None, "world.processes_per_node": 1, "world.rendezvous": TF_CONFIG,
    "work.engine": "tensorflow", "work.task": "image-classification", "work.model": RESNET, "work.data": {"source": "digits"},
}
WANDB = {"to": "wandb", "project": "vision"}
NUMBERS = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1"}


def environment(**changes: str) -> dict[str, str]:
    task = {"cluster": {"chief": ["run-chief-0:2222"], "worker": ["run-worker-0:2222"]}, "task": {"type": "worker", "index": 0}}
    return {**NUMBERS, "TF_CONFIG": json.dumps(task), **changes}


def spec(**changes: Any) -> RunSpec:
    return RunSpec.model_validate(changed({**RUN, **{key.replace("__", "."): value for key, value in changes.items()}}))


def test_a_worker_after_its_chief() -> None:
    place = find_place(spec(), environment())
    assert (place.rank, place.world_size, place.node, place.leads) == (1, 2, 1, False)


def test_numbers_that_disagree() -> None:
    with pytest.raises(TopologyMismatchError, match="RANK is 0, and by TF_CONFIG this is node 1"):
        find_place(spec(), environment(RANK="0"))
    with pytest.raises(PodError, match="TF_CONFIG is not set"):
        find_place(spec(), NUMBERS)


def test_a_worker_is_one_process() -> None:
    wanted = r"world.processes_per_node is 2: .* set it to 1, and world.replicas_per_process"
    with pytest.raises(InvalidRunError, match=wanted):
        find_place(spec(world__processes_per_node=2), environment())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"work__precision": "fp16"}, "does not read precision fp16; set it to bf16"),
        ({"work__initial_weights": "/models/x"}, "does not read initial_weights; remove it, or use a torch engine"),
        ({"work__activation_checkpointing": True}, "does not read activation_checkpointing"),
        ({"work__gradient_reduction": "bf16"}, "does not read gradient_reduction"),
        ({"work__skip_non_finite": 3}, "does not read skip_non_finite"),
        ({"work__compile": True}, "does not read compile"),
        ({"work__metrics": [WANDB, {"to": "tensorboard"}]}, "does not read metrics tensorboard; remove it, or use wandb"),
        ({"work__checkpoints": {"directory": "/c", "save": "background"}}, r"does not read checkpoints\.save background"),
    ],
)
def test_a_specification_asks_for_nothing_that_is_not_read(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        spec(**changes)


def test_metrics_may_go_where_no_torch_is_needed() -> None:
    assert spec(work__metrics=[WANDB])


def test_other_work() -> None:
    with pytest.raises(InvalidRunError, match="the work is not for engine tensorflow"):
        find_place(RunSpec.model_validate(changed({"world.rendezvous": TRACKER, "work": BOOSTING})), environment())
