"""What the time of an attempt goes into, and what of it was for good."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.observe.metrics import Timesheet
from trainwright_trainer.supervisor.pod.observer import EMPTY_ATTEMPTS


def attempt(past: Past, first: int, last: int) -> Timesheet:
    """Ten seconds of start, ten of restore, a hundred of training, ten of saving in between."""
    sheet = Timesheet(past, 1000)
    events: list[tuple[Phase, int, float]] = [
        ("restoring", 0, 1010), ("training", first, 1020), ("saving", last, 1070), ("training", last, 1080),
        ("finished", last, 1130),
    ]
    for phase, step, now in events:
        sheet.follow(phase, step, now)
    return sheet


def test_a_first_attempt() -> None:
    sheet = attempt(Past(attempts=1), 0, 100)
    assert sheet.seconds(1130) == {"starting": 10, "restoring": 10, "training": 100, "saving": 10, "replaying": 0}
    assert sheet.seconds(2000) == sheet.seconds(1130)
    assert sheet.goodput(1130) == pytest.approx(100 / 130)


def test_steps_that_were_done_before_do_not_count() -> None:
    past = Past(attempts=2, age_seconds=870, productive_seconds=400, reached_step=75)
    sheet = attempt(past, 50, 150)
    assert sheet.seconds(1130)["replaying"] == 25
    assert sheet.goodput(1130) == pytest.approx(475 / 1000)
    assert attempt(past, 10, 60).seconds(1130)["training"] == 0
    assert attempt(past, 80, 90).seconds(1130)["replaying"] == 0


def test_before_the_first_step_it_is_known_what_it_will_be() -> None:
    sheet = Timesheet(Past(reached_step=75), 0)
    sheet.follow("training", 50, 0)
    assert sheet.seconds(10) == {"starting": 0, "training": 0, "replaying": 10}


def test_a_rank_that_has_ended_spends_no_time() -> None:
    sheet = Timesheet(Past(), 0)
    sheet.close(5)
    sheet.follow("training", 1, 50)
    assert sheet.seconds(100) == {"starting": 5}


PHASES: tuple[Phase, ...] = ("starting", "restoring", "warming_up", "training", "saving", "evaluating")


@given(st.lists(st.tuples(st.sampled_from(PHASES), st.integers(0, 100), st.floats(0, 100)), max_size=20), st.integers(0, 100))
def test_no_second_is_lost(events: list[tuple[Phase, int, float]], reached: int) -> None:
    sheet, now = Timesheet(Past(reached_step=reached), 0), 0.0
    for phase, step, seconds in events:
        now += seconds
        sheet.follow(phase, step, now)
    found = sheet.seconds(now)
    assert sum(found.values()) == pytest.approx(now)
    assert all(seconds >= 0 for seconds in found.values())
    assert 0 <= sheet.goodput(now) <= 1


def test_goodput_over_real_attempts(new_run: NewRun) -> None:
    run = new_run(nodes=1)
    run.plans = {"*": f"fail:{ExitCode.INTERNAL}:60"}  # no commit: all of its steps are lost
    run.start_all()
    assert run.wait() == [ExitCode.INTERNAL], run.logs()
    run.plans = {"*": "finish:120"}
    pod = run.start(0)
    assert pod.wait() == 0, run.logs()
    lines = [json.loads(line) for line in (run.directory / "state" / "attempts.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["started", "times", "ended"] * 2
    message = pod.message()
    assert message.attempts == 2
    assert message.goodput is not None
    assert 0 < message.goodput < 1
    first, second = (line for line in lines if line["event"] == "times")
    assert first["step"] == 59
    assert first["seconds"]["training"] > 59 * 0.02
    assert second["step"] == 120
    assert second["seconds"]["replaying"] == pytest.approx(second["seconds"]["training"] * 59 / 61, rel=0.01)


def test_goodput_is_served(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    for pod in run.pods:
        metrics = pod.get("/metrics")[1]
        assert "\ntrainwright_attempt 1.0" in metrics
        assert '\ntrainwright_phase_seconds_total{phase="training"} ' in metrics
        assert "\ntrainwright_goodput 0." in metrics


def test_attempts_without_a_commit_are_counted_until_there_is_one(new_run: NewRun) -> None:
    run = new_run(nodes=1)
    run.plans = {"*": f"fail:{ExitCode.INTERNAL}:2"}
    for _ in range(2):
        run.pods.clear()
        run.start_all()
        assert run.wait() == [ExitCode.INTERNAL], run.logs()
    run.pods.clear()
    run.plans, go = {"*": "commit"}, run.directory / "go"
    pod = run.start(0, environment={"FAKE_GO": str(go)})
    pod.wait_for_event("supervisor_started")
    wait_until(lambda: f"\n{EMPTY_ATTEMPTS} 3.0" in pod.get("/metrics")[1], "the third attempt", told=run.logs)
    assert f"\n{EMPTY_ATTEMPTS}_limit 3.0" in pod.get("/metrics")[1]
    go.touch()
    wait_until(lambda: f"\n{EMPTY_ATTEMPTS} 0.0" in pod.get("/metrics")[1], "a commit", told=run.logs)
