"""Which estimates `trainwright diff` lists: those that may have changed, as far as the facts tell."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, compiled
from tests.compiler.findings.page import overlay
from tests.compiler.test_edits import CLUSTER, EDITS

from trainwright.compile import CompiledRun
from trainwright.project.record import RunRecord
from trainwright.report.facts import ENTRIES, plan_facts
from trainwright.report.plan import plan_rows
from trainwright.review.compare import fact_changes
from trainwright.review.head import estimates_of
from trainwright.review.model import Class, RunReview

ESTIMATES = {entry.called for entry in ENTRIES.values() if entry.follows}

CHANGES: dict[str, tuple[Data, set[str]]] = {
    "image": ({"image": "registry.example.com/another@sha256:" + "a" * 64}, set()),
    "rate": ({"learning_rate": {"base": 0.5}}, set()),
    "restarts": ({"restarts": 7}, set()),
    "variable": ({"env": {"PLAIN": "edited"}}, set()),
    "keep": ({"checkpoints": {"keep": 7}}, set()),
    "seed": ({"workload": {"seed": 7}}, set()),
    "nodes": ({"topology": {"nodes": 4}}, {"memory", "host memory", "traffic"}),
    "micro batch": ({"batch": {"micro": 4}}, {"memory", "host memory"}),
    "optimizer": ({"workload": {"optimizer": {"kind": "sgd"}}}, {"memory", "host memory"}),
    "precision": ({"workload": {"precision": "fp32"}}, {"memory", "host memory", "traffic"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_estimates_that_cannot_have_changed_are_not_listed(name: str) -> None:
    edit, listed = CHANGES[name]
    said = _listed(compiled(), compiled(edit))
    assert said.keys() <= listed
    assert bool(said) == bool(listed)


@pytest.mark.parametrize("edit", [*EDITS.values(), *(edit for edit, _ in CHANGES.values())])
@pytest.mark.parametrize("base", [{}, {"topology": {"kind": "zero3", "engine": "fsdp2", "nodes": 2, "gpus_per_node": 8}}])
def test_an_estimate_that_changes_is_listed(edit: Data, base: Data) -> None:
    """For an edit of every field of a run."""
    before, after = compiled(base, CLUSTER), compiled(overlay(base, edit), CLUSTER)
    rows = [{label: text for label, text in plan_rows(one) if label in ESTIMATES} for one in (before, after)]
    changed = {label for label, text in rows[1].items() if rows[0].get(label) != text and not text.startswith("not known")}
    assert changed <= _listed(before, after).keys()


def _listed(before: CompiledRun, after: CompiledRun) -> dict[str, str]:
    records = [RunRecord(identity=one.identity, file="x", facts=plan_facts(one)) for one in (before, after)]
    facts = fact_changes(records[0].facts, records[1].facts)
    return estimates_of(RunReview("example", Class.REPLACED, records[0], records[1], "", "", facts), after)
