"""The specification as an older image reads it: unknown fields left out, and what that image would not do named."""

from __future__ import annotations

from typing import Any

import pytest
from tests.trainer.contract.specifications import BOOSTING, C10D, ELASTIC_BATCH, LLAMA, TRACKER, changed

from trainwright.plan.specification import render_for
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.versions import KNOWN_VERSIONS

LLAMA_3_1 = LLAMA | {"rms_norm_eps": 1e-5}


def problems(changes: dict[str, Any], version: str = "0.1.0") -> list[str]:
    return render_for(RunSpec.model_validate(changed(changes)), version)[1]


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, []),
    ({"work.engine": "fsdp2"}, ["engine fsdp2 needs trainer 0.2.0, the image has 0.1.0"]),
    ({"work.engine": "fsdp2", "work.fsdp2": {}}, ["engine fsdp2 needs trainer 0.2.0, the image has 0.1.0"]),
    ({"world.rendezvous": TRACKER, "work": BOOSTING}, [
        "rendezvous dmlc-tracker needs trainer 0.2.0, the image has 0.1.0",
        "work xgboost needs trainer 0.2.0, the image has 0.1.0",
    ]),
    ({"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH}, ["rendezvous c10d needs trainer 0.2.0, the image has 0.1.0"]),
    ({"work.precision": "fp16"}, ["precision fp16 needs trainer 0.2.0, the image has 0.1.0"]),
    ({"work.model": LLAMA_3_1}, ["work.model.rms_norm_eps needs trainer 0.2.0, the image has 0.1.0"]),
    ({"work.activation_checkpointing": True}, ["work.activation_checkpointing needs trainer 0.2.0, the image has 0.1.0"]),
])
def test_what_the_first_release_cannot_do(changes: dict[str, Any], expected: list[str]) -> None:
    assert problems(changes) == expected
    assert problems(changes, KNOWN_VERSIONS[-1]) == []
    assert problems(changes, "") == []  # a missing version is a finding of its own


def test_the_first_release_gets_no_key_that_it_does_not_know() -> None:
    spec = RunSpec.model_validate(changed({}))
    rendered, _ = render_for(spec, "0.1.0")
    newest, _ = render_for(spec, KNOWN_VERSIONS[-1])
    assert newest["work"].pop("activation_checkpointing") is False
    assert rendered == newest
