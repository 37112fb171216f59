"""The line that a synth prints for a run: which facts differ, in words."""

from __future__ import annotations

import pytest

from trainwright.model import Fact
from trainwright.project.changes import changed_facts, run_lines
from trainwright.project.record import Records, RunRecord
from trainwright.review.outcome import outcome, training

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


HERE: dict[str, Fact] = {
    "cluster": "h100", "namespace": "training", "workload": "trainer", "checkpoints": "/checkpoints/run/a",
    "checkpoints.lineage": "a", "checkpoints.claim": "claim", "mounts./checkpoints.claim": "claim",
}
STORED: dict[str, Fact] = {
    "cluster": "h100", "namespace": "training", "workload": "trainer", "checkpoints": "s3://bucket/x/run/a",
    "checkpoints.lineage": "a", "checkpoints.store": "s3://bucket/x",
}
MOVES = "starts at step 0, unless its checkpoints are in"
B: dict[str, Fact] = {"checkpoints": "/checkpoints/run/b", "checkpoints.lineage": "b"}
OTHER_CLAIM: dict[str, Fact] = {"checkpoints.claim": "other", "mounts./checkpoints.claim": "other"}
MOVED: dict[str, Fact] = {
    **{key: value for key, value in HERE.items() if not key.startswith("mounts")},
    "checkpoints": "/saved/run/a", "checkpoints.mount": "/saved", "mounts./saved.claim": "claim",
}


@pytest.mark.parametrize(
    ("old", "new", "end", "words"),
    [
        (HERE, {**HERE, "image": "x"}, "resumes from lineage a", "the last checkpoint of lineage a"),
        (HERE, MOVED, "resumes from lineage a", "the last checkpoint of lineage a"),
        (HERE, {**HERE, **OTHER_CLAIM}, f"{MOVES} run/a of claim other on h100, namespace training",
         "copies them to run/a of claim other on"),
        (HERE, {**HERE, "mounts./checkpoints.sub_path": "x"},
         f"{MOVES} x/run/a of claim claim on h100, namespace training",
         "copies them to x/run/a of claim claim on"),
        (HERE, {**HERE, "namespace": "other"},
         f"{MOVES} run/a of claim claim on h100, namespace other", "namespace other before"),
        (HERE, STORED, f"{MOVES} s3://bucket/x/run/a on h100, namespace training",
         "copies them to s3://bucket/x/run/a on"),
        (STORED, {**STORED, "image": "x"}, "resumes from lineage a", "the last checkpoint of lineage a"),
        (STORED, {**STORED, "env.AWS_ENDPOINT_URL": "http://minio:9000"},
         f"{MOVES} s3://bucket/x/run/a on h100, namespace training",
         "resumes if lineage a has checkpoints where it looks now"),
        (HERE, {**HERE, **B},
         "starts at step 0, unless /checkpoints/run/b has checkpoints", "lineage b, unless /checkpoints/run/b has checkpoints"),
        ({**HERE, **B}, HERE,
         "starts at step 0, unless /checkpoints/run/a has checkpoints", "lineage a, unless /checkpoints/run/a has checkpoints"),
        (HERE, {**HERE, "checkpoints.resume": "never"}, "starts at step 0: it says `resume: never`", "it says `resume: never`"),
        (HERE, {**HERE, **B, "checkpoints.resume": "required"}, "ends at once, unless /checkpoints/run/b has checkpoints",
         "it ends at once in lineage b, unless"),
        (HERE, {**HERE, "namespace": "other", "checkpoints.resume": "required"},
         "ends at once, unless its checkpoints are in run/a of claim claim on h100, namespace other", "else it ends at once"),
        ({}, HERE, "checkpoints of lineage a", "resumes if lineage a has checkpoints"),
    ],
)
def test_synth_and_diff_agree_where_a_new_run_starts(old: dict[str, Fact], new: dict[str, Fact], end: str, words: str) -> None:
    before, after = (RunRecord(identity=identity, file=identity, facts=facts) for identity, facts in (("x", old), ("y", new)))
    (line,) = run_lines(Records({"run": before}), Records({"run": after}), {"run"})
    assert line.startswith("run: new run y replaces x; ")
    assert line.endswith(f"; {end}")
    assert words in outcome("run", before, after)
    assert ("starts at step 0" in line) == ("at step 0" in training(before, after)) or not old


OWN: dict[str, Fact] = {**HERE, "workload": "script", "checkpoints.by": "own"}
UNKNOWN: dict[str, Fact] = {**HERE, "workload": "command", "checkpoints.by": "unknown"}
BEFORE_THE_KEY: dict[str, Fact] = {**HERE, "workload": "script", "checkpoints.every": "30min", "checkpoints.keep": 3}
NOWHERE: dict[str, Fact] = {"workload": "command", "cluster": "h100", "namespace": "training", "checkpoints.by": "unknown"}
EDITS: list[dict[str, Fact]] = [
    {"image": "x"}, B, OTHER_CLAIM, {"namespace": "other"}, {"checkpoints.resume": "never"}, {"checkpoints.resume": "required"},
    {"resume_from": "/checkpoints/run/old"},
]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("old", [{}, HERE, OWN, UNKNOWN, BEFORE_THE_KEY, NOWHERE])
@pytest.mark.parametrize("new", [OWN, UNKNOWN, BEFORE_THE_KEY, NOWHERE])
def test_of_a_program_that_is_not_ours_no_step_is_claimed(
    old: dict[str, Fact], new: dict[str, Fact], edit: dict[str, Fact]
) -> None:
    before = RunRecord(identity="x", file="x", facts=old)
    after = RunRecord(identity="y", file="y", facts={**new, **edit})
    (line,) = run_lines(Records({"run": before}), Records({"run": after}), {"run"})
    for text in (line, training(before, after), outcome("run", before, after), outcome("run", None, after)):
        assert "step 0" not in text
        assert "ends at once" not in text
        assert "no checkpoints" not in text
        assert "lineage a" not in text.replace("`checkpoints: {lineage: a}`", "")
        assert ("not known" in text) == (new is not OWN)
    assert ("/checkpoints/run/old" in outcome("run", before, after)) == ("resume_from" in edit)


@pytest.mark.parametrize("facts", [OWN, UNKNOWN, BEFORE_THE_KEY, NOWHERE])
def test_what_stays_of_a_run_is_said_as_far_as_it_is_known(facts: dict[str, Fact]) -> None:
    before = RunRecord(identity="x", file="x", facts=facts)
    (line,) = run_lines(Records({"run": before}), Records({}), {"run"})
    for text in (line, outcome("run", before, None)):
        assert ("its checkpoints stay" in text) == (facts is OWN)
    assert ("to save" in outcome("run", before, None)) == (facts is OWN)


def test_a_program_that_saves_finds_its_directory_again() -> None:
    for edit, words in (({"image": "x"}, "finds /checkpoints/run/a as before"), (B, "finds checkpoints in run/b of claim claim")):
        before, after = RunRecord(identity="x", file="x", facts=OWN), RunRecord(identity="y", file="y", facts={**OWN, **edit})
        assert words in outcome("run", before, after)
    assert "write `checkpoints: {lineage: a}`" in outcome("run", before, after)
