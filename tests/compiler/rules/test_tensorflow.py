"""Rules on TF_CONFIG and on Keras."""

from __future__ import annotations

from tests.compiler.example import Data, codes, command, script
from tests.compiler.findings.page import overlay

OPERATOR: Data = {"operators": {"training-operator": {"version": "1.9.4"}}}
RUN: Data = {
    "target": "tf-job", "trainer_version": "0.2.0", "topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 1},
}
ALONE: Data = overlay(RUN, {"topology": {"nodes": 1}})


def said(data: Data) -> list[str]:
    return [code for code in codes(data, OPERATOR) if code in ("TW422", "TW429")]


def test_one_pod_has_no_tf_config() -> None:
    assert said(ALONE) == said(ALONE | command("python", "train.py")) == ["TW422"]
    assert said(RUN) == []


def test_a_program_that_may_call_fit() -> None:
    assert said(RUN | command("python", "train.py")) == said(RUN | script("python", "train.py")) == ["TW429"]


def test_legacy_keras_can_fit() -> None:
    assert said(RUN | command("python", "train.py") | {"env": {"TF_USE_LEGACY_KERAS": "1"}}) == []


def test_other_topologies_are_not_asked() -> None:
    assert said(command("python", "train.py")) == []
