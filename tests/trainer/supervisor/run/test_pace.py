"""Slow ranks are found, and chance is not taken for slowness."""

from __future__ import annotations

from typing import Any

from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun

from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.metrics import Gathering, Slowest, Stragglers, own_seconds


def test_slow_twice_in_a_row() -> None:
    stragglers, seconds = Stragglers(), {0: 1.0, 1: 1.1, 2: 1.4, 3: 1.0}
    assert stragglers.judge(seconds) == Slowest(2, 1.4)
    assert list(stragglers.ranks) == []
    stragglers.judge(seconds)
    assert list(stragglers.ranks) == [2]
    stragglers.judge({0: 1.0, 1: 1.1, 2: 1.2, 3: 1.0})
    assert list(stragglers.ranks) == []


def test_of_two_ranks_the_faster_is_the_measure() -> None:
    stragglers = Stragglers()
    for _ in range(2):
        assert stragglers.judge({0: 1.0, 1: 1.5}).rank == 1
    assert stragglers.ranks == (1,)


def test_microseconds_say_nothing() -> None:
    stragglers = Stragglers()
    for _ in range(3):
        stragglers.judge({0: 1e-6, 1: 1e-4})
    assert stragglers.ranks == ()
    assert stragglers.judge({0: 0.0, 1: 0.0}).rank == 0


def test_parts_come_together() -> None:
    gathering, one, two, three = Gathering(3), split(1.0), split(2.0), split(3.0)
    assert gathering.add({0: one}) is None
    assert gathering.add({0: three}) is None  # again, before the others
    assert gathering.add({1: one, 2: two}) == {0: three, 1: one, 2: two}
    assert gathering.add({1: one, 2: two}) is None


def test_what_a_rank_waits_is_not_its_own() -> None:
    """Steps of 4 s on all ranks, of which 3 s of rank 1 are its own work, and 1 s is what sending takes."""
    found = own_seconds({0: split(4.0, waited=3.0), 1: split(4.0, waited=1.0), 2: split(4.0, waited=2.5)})
    assert found == {0: 2.0, 1: 4.0, 2: 2.5}
    assert Stragglers().judge(found) == Slowest(1, 1.6)


def test_sending_alone_makes_nobody_slow() -> None:
    found = own_seconds({0: split(1.0, waited=0.97), 1: split(1.0, waited=0.95)})
    assert Stragglers().judge(found).ratio < 1.05


def split(seconds: float, waited: float = 0.0) -> StepSplit:
    return StepSplit(step_seconds=seconds, waited_seconds=waited)


def test_a_slow_rank_of_a_run_is_named(new_run: NewRun) -> None:
    run = new_run(nodes=2, processes=2)
    run.plans = {"*": "finish:100000", "3": "slow:25"}
    leader, _ = run.start_all()

    def warning() -> dict[str, Any] | None:
        return leader.heard("stragglers")

    wait_until(lambda: warning() is not None, "the slow rank is named")
    event = warning()
    assert event is not None
    assert (event["ranks"], event["slowest"], event["ratio"]) == ([3], 3, 2.5), run.logs()
    metrics = leader.get("/metrics")[1]
    assert "\ntrainwright_slowest_rank 3.0" in metrics
    assert "\ntrainwright_slowest_rank_ratio 2.5" in metrics
    assert "\ntrainwright_slow_ranks 1.0" in metrics
    assert "\ntrainwright_communication_seconds 0.0" in metrics
    assert "\ntrainwright_data_wait_seconds 0.0" in metrics
    assert '\ntrainwright_phase{phase="training"} 1.0' in metrics
    assert '\ntrainwright_phase{phase="saving"} 0.0' in metrics
