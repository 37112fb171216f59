"""What a scrape says of a run that trains: its phase in ``status``, and what its steps go into in ``diagnose``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.compiler.live.test_beside import JOB, NODES, PODS, PROJECT, RUN, Data

from trainwright.live.decides import Decider
from trainwright.live.diagnose import Diagnosis, diagnose
from trainwright.live.runs import case_for, written_for
from trainwright.live.scrape import pace_facts
from trainwright.live.snapshot import Snapshot, of_list
from trainwright.live.status import Line, status_lines

WELL = {
    "step": 120.0, "step_seconds": 0.5, "slowest_rank": 3.0, "slowest_rank_ratio": 1.1, "slow_ranks": 0.0,
    "communication_seconds": 0.1, "data_wait_seconds": 0.01, "attempt": 1.0, "goodput": 0.9,
}  # fmt: skip
SPENT = {"starting": 900.0, "training": 900.0, "saving": 50.0, "evaluating": 50.0}


def scraped(values: dict[str, float], phase: str = "", spent: dict[str, float] | None = None, **metadata: Any) -> Snapshot:
    pods = copy.deepcopy(PODS)
    for pod in pods:
        pod["spec"]["nodeName"] = "gpu-0"
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    lines = [f"trainwright_{name} {value}" for name, value in values.items()]
    lines += [f'trainwright_phase{{phase="{one}"}} {float(one == phase)}' for one in ("training", "saving") if phase]
    lines += [f'trainwright_phase_seconds_total{{phase="{one}"}} {value}' for one, value in (spent or SPENT).items()]
    job: Data = {**JOB, "metadata": {**JOB["metadata"], **metadata}}
    collected = {"taken": "2026-11-20T09:05:00Z", "metrics": {pods[0]["metadata"]["name"]: "\n".join(lines)}}
    return of_list({"apiVersion": "v1", "kind": "List", "items": [job, *pods, *NODES], "collected": collected})


def line_of(snapshot: Snapshot) -> Line:
    [line] = status_lines(snapshot, [RUN], [RUN], foreign=False)
    return line


def said(values: dict[str, float], spent: dict[str, float] | None = None) -> Diagnosis:
    case = case_for(scraped(WELL | values, "training", spent), RUN)
    return diagnose(case, written_for(PROJECT, RUN), RUN.record.facts, Decider(PROJECT, RUN.run, RUN.name))


def test_a_save_is_told_from_training() -> None:
    for phase in ("training", "saving"):
        line = line_of(scraped(WELL, phase))
        assert (line.state, line.step, line.seconds_to_go) == (phase, 120, round((20021 - 120) * 0.5))


def test_a_run_that_is_told_to_end_saves_first() -> None:
    assert line_of(scraped(WELL, "saving", deletionTimestamp="2026-11-20T09:04:00Z")).state == "saving"
    assert line_of(scraped(WELL, "training", deletionTimestamp="2026-11-20T09:04:00Z")).state == "stopping"


def test_a_trainer_that_does_not_say_its_phase_trains() -> None:
    assert line_of(scraped(WELL)).state == "training"


@pytest.mark.parametrize(("values", "spent", "cause"), [
    ({}, None, "trains"),
    ({"slow_ranks": 1.0, "slowest_rank_ratio": 2.5}, None, "slow-ranks"),
    ({"slowest_rank_ratio": 2.5}, None, "trains"),  # in one interval alone
    ({"data_wait_seconds": 0.2}, None, "waits-for-data"),
    ({"communication_seconds": 0.3}, None, "waits-for-network"),
    ({"communication_seconds": 0.3, "slow_ranks": 2.0}, None, "slow-ranks"),
    ({}, SPENT | {"saving": 500.0}, "stands-still"),
    ({"goodput": 0.5, "attempt": 5.0}, None, "starts-over-and-over"),
    ({"goodput": 0.5}, None, "trains"),  # it has only just started
    ({"step_seconds": 1e-4, "data_wait_seconds": 1e-4}, None, "runs"),
])  # fmt: skip
def test_what_steps_go_into(values: dict[str, float], spent: dict[str, float] | None, cause: str) -> None:
    found = said(values, spent)
    assert (found.cause, found.fine) == (cause, cause in ("trains", "runs")), found.says


def test_without_its_numbers_nothing_is_said_of_its_pace() -> None:
    """An older trainer says how fast it is, and not what a step goes into."""
    old = {"step": 120.0, "step_seconds": 0.5, "slowest_rank": 3.0, "slowest_rank_ratio": 2.5}
    assert diagnose(case_for(scraped(old), RUN), written_for(PROJECT, RUN)).cause == "runs"


def test_infinite_numbers_are_no_numbers() -> None:
    line = line_of(scraped(WELL | {"step_seconds": float("inf"), "goodput": float("nan")}, "training"))
    assert (line.state, line.step_seconds, line.goodput) == ("training", None, None)


def test_no_rank_is_called_slowest_where_none_says_what_it_waits() -> None:
    """As those of a script that tells its steps alone."""
    case = case_for(scraped({"step": 120.0, "step_seconds": 0.5}, "training"), RUN)
    [fact] = pace_facts(case)
    assert "a step takes 0.5 s" in fact.shows
    assert "slowest" not in fact.shows
