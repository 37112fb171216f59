"""Everybody acts at one tick, or nobody does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.run.progress import Hold
from trainwright_trainer.supervisor.run.agreement import Agreement, AtTick, Impossible, TooLate
from trainwright_trainer.supervisor.wire.messages import Position


def test_open_until_everybody_has_answered() -> None:
    agreement = Agreement(7, "stop", [0, 1, 2])
    agreement.answer(0, Position(request=7, tick=4))
    agreement.answer(2, Position(request=7, tick=6))
    assert agreement.decision() is None
    assert agreement.silent_nodes == [1]
    agreement.answer(1, Position(request=6, tick=100))  # of an earlier question
    agreement.answer(9, Position(request=7, tick=100))  # of nobody
    assert agreement.decision() is None
    agreement.answer(1, Position(request=7, tick=5))
    assert agreement.decision() == AtTick(7)


def test_one_who_cannot_decides_at_once() -> None:
    agreement = Agreement(1, "save", [0, 1])
    agreement.answer(1, Position(request=1, absent="rank 3 is still restoring"))
    assert agreement.decision() == Impossible("rank 3 is still restoring")


def test_those_past_their_last_tick_hold_nobody_up() -> None:
    agreement = Agreement(1, "stop", [0, 1])
    agreement.answer(0, Position(request=1, tick=None))
    agreement.answer(1, Position(request=1, tick=8))
    assert agreement.decision() == AtTick(9)


def test_too_late() -> None:
    agreement = Agreement(1, "stop", [0])
    agreement.answer(0, Position(request=1, tick=None))
    assert agreement.decision() == TooLate()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_with_the_ranks_own_rule_all_act_at_one_tick(before: list[int], more: list[int]) -> None:
    """Ranks at any ticks, asked one after the other while those not yet asked go on."""
    holds = [Hold() for _ in before]
    for hold, tick in zip(holds, before, strict=True):
        for number in range(1, tick + 1):
            hold.enter(number)
    agreement = Agreement(1, "stop", range(len(holds)))
    ticks = list(before)
    for node, hold in enumerate(holds):
        for number in range(ticks[node] + 1, ticks[node] + 1 + more[node]):
            hold.enter(number)
            ticks[node] = number
        agreement.answer(node, Position(request=1, tick=hold.where(1)))
    decision = agreement.decision()
    assert isinstance(decision, AtTick)
    for hold, tick in zip(holds, ticks, strict=True):
        hold.act(1, "stop", decision.tick)
        assert tick < decision.tick
        actions = [hold.enter(number) for number in range(tick + 1, decision.tick + 1)]
        assert actions == [None] * (len(actions) - 1) + ["stop"]


@pytest.mark.parametrize("action", ["stop", "save"])
def test_keeps_what_it_is_for(action: str) -> None:
    assert Agreement(1, action, [0]).action == action  # type: ignore[arg-type]
