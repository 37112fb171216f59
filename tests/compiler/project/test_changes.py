"""The line that a synth prints for a run: which facts differ, in words."""

from __future__ import annotations

import pytest

from trainwright.model import Fact
from trainwright.project.changes import changed_facts, run_lines
from trainwright.project.record import Records, RunRecord

IMAGE = "registry.example.com/trainwright/trainer@sha256:"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"learning_rate": "4.24264e-4"}, {"learning_rate": "3.0e-4"}, "learning rate 4.2e-4 → 3.0e-4"),
        ({"learning_rate": "4.24e-4"}, {"learning_rate": "4.22e-4"}, "learning rate 4.24e-4 → 4.22e-4"),
        ({"batch.micro": 8}, {"batch.micro": 16}, "batch micro 8 → 16"),
        ({"compile": False}, {"compile": True}, "compile no → yes"),
        ({}, {"labels.example.com/a_b": "c"}, "labels example.com/a_b c added"),
        ({"env.NCCL_DEBUG": "INFO"}, {}, "env NCCL_DEBUG INFO removed"),
        ({"image": f"{IMAGE}{'a' * 64}"}, {"image": f"{IMAGE}{'b' * 64}"},
         "image registry.example.com/trainw…aaaaaaaaaaaa → registry.example.com/trainw…bbbbbbbbbbbb"),
        ({"command": "x" * 60 + "1" + "y" * 60}, {"command": "x" * 60 + "2" + "y" * 60}, "command changed"),
    ],
)
def test_a_fact_that_differs_is_said_in_words(before: dict[str, Fact], after: dict[str, Fact], line: str) -> None:
    same: dict[str, Fact] = {"team": "nlp"}
    assert changed_facts({**before, **same}, {**after, **same}) == [line]


def test_a_rate_that_is_its_base_is_said_once() -> None:
    before, after = ({"learning_rate": rate, "learning_rate.base": rate} for rate in ("1.0e-3", "2.0e-3"))
    assert changed_facts(before, after) == ["learning rate 1.0e-3 → 2.0e-3"]
    scaled: dict[str, Fact] = {"learning_rate": "4.0e-3", "learning_rate.base": "2.0e-3"}
    assert changed_facts(before, scaled) == ["learning rate 1.0e-3 → 4.0e-3", "learning rate base 1.0e-3 → 2.0e-3"]


def test_many_facts_are_counted() -> None:
    before: dict[str, Fact] = {f"model.size_{number}": 1 for number in range(9)}
    after: dict[str, Fact] = dict.fromkeys(before, 2)
    lines = changed_facts(before, after)
    assert lines[0] == "model size 0 1 → 2"
    assert lines[5:] == ["4 more facts"]


def test_facts_that_are_not_known_are_not_called_new() -> None:
    assert changed_facts({}, {"batch": 8}) == []


@pytest.mark.parametrize(
    ("old", "new", "end"),
    [
        ({"checkpoints.lineage": "a"}, {"checkpoints.lineage": "a"}, "resumes from lineage a"),
        ({"checkpoints.lineage": "a"}, {"checkpoints.lineage": "b"}, "starts at step 0 in lineage b"),
        ({"checkpoints.lineage": "a"}, {"checkpoints": "none"}, "starts at step 0: it has no checkpoints"),
        ({}, {"checkpoints.lineage": "b"}, "checkpoints of lineage b"),
    ],
)
def test_where_a_new_run_starts(old: dict[str, Fact], new: dict[str, Fact], end: str) -> None:
    before, after = (
        Records({"run": RunRecord(identity=identity, file=identity, facts=facts)}) for identity, facts in (("x", old), ("y", new))
    )
    (line,) = run_lines(before, after, {"run"})
    assert line == f"run: new run y replaces x; {end}"
