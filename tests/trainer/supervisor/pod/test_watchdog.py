"""Which rank of a pod exceeds its limit, and which rank of a run holds the others up."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trainer.contract.specifications import RESNET, TF_CONFIG, changed

from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.spec import Lifecycle, RunSpec
from trainwright_trainer.contract.spec import Watchdog as Limits
from trainwright_trainer.observe.hang import Dumped, RankState, Stuck, hang_cause, suspects
from trainwright_trainer.rank.messages import Heartbeat, ToRankMessage
from trainwright_trainer.supervisor.pod.observer import Watchdog, warm_up_seconds
from trainwright_trainer.supervisor.pod.rank import Rank

LIFECYCLE = Lifecycle(grace_seconds=60, save_seconds=30, watchdog=Limits(training_seconds=10, slowdown=4, saving_seconds=100))


class QuietRank(Rank):
    """Only what the watchdog looks at."""

    def say(self, message: ToRankMessage) -> None:
        raise NotImplementedError

    def signal(self, number: signal.Signals) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError


def rank(number: int, phase: Phase, progressed_at: float, tick_seconds: float | None = None) -> QuietRank:
    made = QuietRank(number, lambda rank, message: None)
    made.phase, made.progressed_at, made.alive = phase, progressed_at, True
    made.beat = Heartbeat(tick=1, marks=1, idle_seconds=0, tick_seconds=tick_seconds)
    return made


def beat(tick_seconds: float | None) -> Heartbeat:
    return Heartbeat(tick=1, marks=1, idle_seconds=0, tick_seconds=tick_seconds)


@pytest.mark.parametrize(("phase", "tick_seconds", "limit"), [
    ("starting", None, 1800), ("restoring", 9.0, 3600), ("warming_up", None, 1800),
    ("training", None, 10), ("training", 1.0, 10), ("training", 60.0, 240), ("evaluating", 3.0, 12),
    ("saving", 1000.0, 120), ("finished", None, 120),
])
def test_limits(phase: Phase, tick_seconds: float | None, limit: float) -> None:
    assert Watchdog(LIFECYCLE).limit(phase, beat(tick_seconds)) == limit


@pytest.mark.parametrize(("work", "watchdog", "limit"), [
    ({}, None, 240),
    ({"engine": "fsdp2"}, {"training_seconds": 600}, 600),
    ({}, {"training_seconds": 3000}, 1800),
    ({"compile": True}, None, 1800),
    ({}, {"warming_up_seconds": 900}, 900),
    ({"engine": "tensorflow"}, None, 1800),
])
def test_a_first_batch_that_compiles_nothing_has_the_limit_of_a_step(
    work: dict[str, Any], watchdog: dict[str, Any] | None, limit: float
) -> None:
    parts: dict[str, Any] = {f"work.{key}": value for key, value in work.items()}
    if work.get("engine") == "tensorflow":
        parts |= {"world.rendezvous": TF_CONFIG, "work.task": "image-classification", "work.model": RESNET,
                  "work.data": {"source": "digits"}}
    spec = RunSpec.model_validate(changed(parts | {"lifecycle.watchdog": watchdog}))
    assert Watchdog(spec.lifecycle, warm_up_seconds(spec)).limit("warming_up", None) == limit


def test_defaults_leave_a_collective_no_time_to_give_up_by_itself() -> None:
    assert Watchdog(Lifecycle(grace_seconds=60)).limit("training", None) < 300


def test_the_worst_is_named() -> None:
    ranks = [rank(0, "training", 95), rank(1, "training", 80), rank(2, "training", 60), rank(3, "saving", 0)]
    stuck = Watchdog(LIFECYCLE).stuck(ranks, 100)
    assert stuck == Stuck(rank=2, why="has been training for 40 s without progress, and 10 s is the limit")
    assert Watchdog(LIFECYCLE).stuck(ranks[::3], 100) is None


def test_a_rank_that_has_ended_hangs_no_more() -> None:
    gone = rank(0, "training", 0)
    gone.alive = False
    assert Watchdog(LIFECYCLE).stuck([gone], 1e6) is None


def state(number: int, marks: int | None = 10, waits: bool = True, process: str = "sleeping") -> RankState:
    return RankState(
        rank=number, pod=f"node {number // 2}", phase="training", step=7, marks=marks, idle_seconds=240, process=process,
        frame="distributed_c10d.py:2806 in all_reduce" if waits else "digits.py:40 in read", waits_for_others=waits,
    )


def named(*states: RankState) -> list[int]:
    return [found.rank for found in suspects(states)]


def test_the_one_that_did_not_enter_the_collective() -> None:
    assert named(state(0), state(1, waits=False), state(2), state(3)) == [1]
    assert named(state(0, 11), state(1, 10), state(2, 11)) == [1]
    assert named(state(0, 12), state(1, 10, waits=False), state(2, 10)) == [1]  # 2 waits for it in an earlier collective


def test_one_that_gives_no_sign_of_life() -> None:
    assert named(state(0, 9, waits=False), state(1, None), state(2)) == [1]
    assert named(state(0), state(1, process="stopped")) == [1]
    assert named(state(0), state(1, process="in uninterruptible sleep"), state(2)) == [1]


def test_nobody_in_particular() -> None:
    assert named(state(0), state(1)) == []
    assert named(state(0, waits=False), state(1, waits=False)) == []
    assert named(state(0)) == [0]
    assert "no rank is behind the others: all are at" in hang_cause(
        Stuck(rank=1, why="hangs"), [Dumped(ranks=(state(0), state(1)), path=None)], []
    ).message


@given(st.lists(st.builds(
    state, st.integers(0, 99), st.one_of(st.none(), st.integers(0, 5)), st.booleans(), st.sampled_from(["sleeping", "stopped"])
), max_size=8))
def test_a_cause_is_one_sentence_for_any_states(states: list[RankState]) -> None:
    found = suspects(states)
    assert len(found) < max(len(states), 2)
    cause = hang_cause(Stuck(rank=3, why="hangs"), [Dumped(ranks=tuple(states), path="/state/hang-a")], ["node 5 (pod-5)"])
    assert "\n" not in cause.message
    assert cause.message.endswith("node 5 (pod-5) did not answer; stacks are in /state/hang-a")
    assert cause.rank in {3, *(state.rank for state in states)}
