"""Rules on the tracker of XGBoost."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, command, findings

OPERATORS: Data = {"operators": {"training-operator": {"version": "1.9.4"}, "jobset": {"version": "0.12.0"}}}
TOPOLOGY: Data = {"topology": {"kind": "xgboost", "nodes": 3, "gpus_per_node": 0}}


def said(data: Data) -> list[str]:
    return [finding.fix for finding in findings(data, OPERATORS) if finding.code == "TW421"]


@pytest.mark.parametrize(
    ("target", "index"), [("indexed-job", "DMLC_TASK_ID"), ("job-set", "DMLC_TASK_ID"), ("xgboost-job", "RANK")]
)
def test_a_command_has_to_start_the_tracker(target: str, index: str) -> None:
    (fix,) = said({"target": target, **TOPOLOGY, **command("python", "boost.py")})
    assert f"where {index} is 0" in fix


@pytest.mark.parametrize("word", ["tracker_and_worker.py", "/opt/RabitTracker", "dmlc-submit"])
def test_one_that_names_a_tracker_is_believed(word: str) -> None:
    assert said({**TOPOLOGY, **command("python", word)}) == []


def test_other_topologies_are_not_asked() -> None:
    assert said(command("python", "boost.py")) == []
