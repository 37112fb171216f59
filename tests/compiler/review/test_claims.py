"""Which runs a claim that goes puts at risk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.compiler.projects import ROOT

from trainwright.review import Class, Side, folder_side, review
from trainwright.review.side import mark

RUN = "hostnetwork-ddp"
RECORD = f"charts/lock/{RUN}.yaml"
FILE = f"dist/kubeflow-a100/training-host/runs/{RUN}.k8s.yaml"
FOUNDATION = "dist/kubeflow-a100/training-host/foundation/training-host.k8s.yaml"


def without(side: Side, *paths: str) -> Side:
    return replace(side, marks={path: one for path, one in side.marks.items() if path not in paths})


@pytest.mark.parametrize(("state", "says"), [("active", "goes on"), ("paused", "waits"), ("done", None)])
def test_a_run_that_is_paused_may_lose_its_claim(state: str, says: str | None) -> None:
    here = folder_side(ROOT, "here")
    record = here.read([RECORD])[RECORD].replace(b'state: "active"', f'state: "{state}"'.encode())
    contents = {**here.read(here.marks), RECORD: record}
    base = Side("base", {**here.marks, RECORD: mark(record)}, ROOT, None, contents)
    base = base if state == "active" else without(base, FILE)
    found = review(base, without(base, FOUNDATION))
    assert [(run.run, run.change, run.training) for run in found.runs] == ([(RUN, Class.DATA_AT_RISK, says)] if says else [])
    assert found.gpus == ((16, 16) if state == "active" else (0, 0))
