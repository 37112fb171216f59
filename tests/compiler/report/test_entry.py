"""A new row of the plan is one entry: added here from outside, it stands in every view of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compiler.example import compiled

from trainwright.compile import CompiledRun
from trainwright.project.built import run_file
from trainwright.project.record import RunRecord, record_text, run_path
from trainwright.report.facts import ENTRIES, Block, Entry, View, plan_facts
from trainwright.report.header import run_header
from trainwright.report.plan import compiled_data, difference_lines, plan_lines
from trainwright.review import folder_side, review
from trainwright.review.data import data
from trainwright.review.text import text


def lanes(compiled: CompiledRun) -> int:
    return 2 * compiled.plan.world.size


@pytest.fixture(autouse=True)
def entry(monkeypatch: pytest.MonkeyPatch) -> Entry:
    added = Entry(
        "lanes", Block.MACHINES, lanes, lambda of: f"{lanes(of)}, two a rank", label="lanes in all",
        views=View.STATED | View.JSON,
    )  # fmt: skip
    monkeypatch.setitem(ENTRIES, added.key, added)
    return added


def test_it_is_a_row_of_the_plan_and_of_two_plans_side_by_side() -> None:
    one, other = compiled(), compiled({"topology": {"nodes": 4}})
    assert "  lanes in all  32, two a rank" in plan_lines(one)
    assert "  lanes in all  32, two a rank -> 64, two a rank" in difference_lines(one, other)


def test_it_stands_in_json() -> None:
    assert json.loads(json.dumps(compiled_data(compiled())))["lanes"] == 32


def test_it_stands_in_the_record_and_among_the_machines_of_the_header() -> None:
    facts = plan_facts(compiled())
    assert "\n  lanes: 32\n" in record_text(RunRecord(identity="a", file="b", facts=facts))
    machines = next(part for part in run_header("charts/runs/a.yaml", facts).split("\n#\n") if "# GPUs: " in part)
    assert "# lanes in all: 32" in machines.splitlines()


def test_it_stands_in_differences(tmp_path: Path) -> None:
    sides = []
    for name, nodes in (("before", 2), ("after", 4)):
        run = compiled({"topology": {"nodes": nodes}})
        record = RunRecord(identity=run.identity, file=name, facts=plan_facts(run))
        lock = tmp_path / name / "charts" / "lock"
        lock.mkdir(parents=True)
        (lock / run_path("example")).write_text(record_text(record), encoding="utf-8")
        file = tmp_path / name / "dist" / run_file("lab", "training", "example")
        file.parent.mkdir(parents=True)
        file.touch()
        sides.append(folder_side(tmp_path / name, name))
    said = review(*sides)
    assert "  lanes in all: 32 -> 64" in text(said).splitlines()
    assert {"key": "lanes", "label": "lanes in all", "before": 32, "after": 64} in data(said)["runs"][0]["facts"]


def test_an_estimate_is_a_row_and_states_nothing(monkeypatch: pytest.MonkeyPatch, entry: Entry) -> None:
    monkeypatch.setitem(ENTRIES, "lanes", Entry("lanes", row=entry.row, follows=("nodes",)))
    facts = plan_facts(compiled())
    assert "lanes" not in facts
    assert "lanes" not in run_header("charts/runs/a.yaml", facts)
    assert "lanes" not in compiled_data(compiled())
    assert any(line.startswith("  lanes ") for line in plan_lines(compiled()))
