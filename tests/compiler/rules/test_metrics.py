"""Where metrics go, and what they need to get there."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, findings

TENSORBOARD: Data = {"to": "tensorboard"}
WANDB: Data = {"to": "wandb", "project": "vision"}
OFFLINE: Data = WANDB | {"mode": "offline"}
KEY: Data = {"env": {"WANDB_API_KEY": {"secret": "weights-and-biases", "key": "api-key"}}}
STORE: Data = {"checkpoints": {"store": "s3://example-checkpoints"}, "service_account": "trainer"}


def run(*sinks: Data, **fields: Data) -> Data:
    return {"trainer_version": "0.2.0", "workload": {"metrics": list(sinks)}, **fields}


@pytest.mark.parametrize(("asked", "places"), [
    (run(), []),
    (run(TENSORBOARD), []),
    (run(TENSORBOARD, OFFLINE), []),
    (run(TENSORBOARD, WANDB), ["/workload/metrics/1"]),
    (run(WANDB) | KEY, []),
    (run(TENSORBOARD, OFFLINE) | STORE, ["/workload/metrics/0", "/workload/metrics/1"]),
    (run(WANDB) | KEY | STORE, []),
])
def test_who_gets_the_metrics(asked: Data, places: list[str]) -> None:
    found = findings(asked)
    assert [(finding.code, finding.where.pointer) for finding in found] == [("TW213", place) for place in places]


def test_a_key_in_plain_text_is_a_secret_like_any_other() -> None:
    assert codes(run(WANDB, env={"WANDB_API_KEY": "0123456789abcdef"})) == ["TW409"]


def test_a_place_is_written_to_once() -> None:
    with pytest.raises(ValueError, match="metrics go to wandb twice; keep one"):
        codes(run(WANDB, TENSORBOARD, OFFLINE))
