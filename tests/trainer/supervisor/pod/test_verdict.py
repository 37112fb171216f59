"""One code for a pod, whatever its ranks and its peers say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract import Cause, ExitCode
from trainwright_trainer.supervisor.pod.outcome import RankOutcome
from trainwright_trainer.supervisor.verdict import Verdict, verdict

STOP = Cause(kind="ToldToEnd", message="told to end")
LOST = Verdict(ExitCode.PEER_LOST, Cause(kind="PeerLost", message="node 1 is lost"))
QUIET = {ExitCode.DONE, ExitCode.PEER_LOST, ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED}


def outcome(rank: int, code: ExitCode, at: float = 0.0) -> RankOutcome:
    cause = None if code is ExitCode.DONE else Cause(rank=rank, kind="Test", message=f"rank {rank}")
    return RankOutcome(rank, code, at, cause)


@st.composite
def outcomes(draw: st.DrawFn) -> list[RankOutcome]:
    codes = draw(st.lists(st.sampled_from(list(ExitCode)), min_size=1, max_size=8))
    times = draw(st.lists(st.floats(0, 10), min_size=len(codes), max_size=len(codes)))
    return [outcome(rank, code, at) for rank, (code, at) in enumerate(zip(codes, times, strict=True))]


orders = st.sampled_from([None, LOST, Verdict(ExitCode.PREEMPTED_NOT_SAVED, STOP)])
stops = st.sampled_from([None, STOP])


@given(outcomes(), orders, stops, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(
    known: list[RankOutcome], order: Verdict | None, stopping: Cause | None, random: object
) -> None:
    shuffled = sorted(known, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert verdict(shuffled, len(known), order, stopping) == verdict(known, len(known), order, stopping)


@given(outcomes(), orders, stops)
def test_the_earliest_real_failure_wins(known: list[RankOutcome], order: Verdict | None, stopping: Cause | None) -> None:
    failures = sorted((one for one in known if one.code not in QUIET), key=lambda one: (one.at, one.rank))
    decided = verdict(known, len(known), order, stopping)
    if failures:
        assert decided == Verdict(failures[0].code, failures[0].cause)
    else:
        assert decided.code in QUIET


@given(outcomes(), orders, stops)
def test_done_means_that_every_rank_is(known: list[RankOutcome], order: Verdict | None, stopping: Cause | None) -> None:
    if verdict(known, len(known), order, stopping).code is ExitCode.DONE:
        assert {one.code for one in known} == {ExitCode.DONE}


@given(outcomes(), orders, stops, st.integers(1, 4))
def test_a_killed_rank_is_never_done_nor_saved(
    known: list[RankOutcome], order: Verdict | None, stopping: Cause | None, killed: int
) -> None:
    if order is None and stopping is None and {one.code for one in known} == {ExitCode.DONE}:
        return  # nothing would have killed it
    decided = verdict(known, len(known) + killed, order, stopping)
    assert decided.code is not ExitCode.DONE
    if stopping is not None:
        assert decided.code is not ExitCode.PREEMPTED_SAVED


@pytest.mark.parametrize(("codes", "order", "stopping", "expected"), [
    ([0, 0], None, None, 0),
    ([0, 0], LOST, None, 0),
    ([0, 202], None, None, 202),
    ([202, 14], None, None, 14),
    ([202, 14], LOST, None, 14),
    ([202, 202], LOST, None, 202),
    ([0, 0], None, STOP, 0),
    ([210, 210], None, STOP, 210),
    ([210, 0], None, STOP, 210),
    ([210, 211], None, STOP, 211),
    ([210, 202], LOST, STOP, 211),
    ([210, 203], None, STOP, 203),
])
def test_table(codes: list[int], order: Verdict | None, stopping: Cause | None, expected: int) -> None:
    known = [outcome(rank, ExitCode(code), rank) for rank, code in enumerate(codes)]
    assert verdict(known, len(known), order, stopping).code == expected


def test_a_lost_peer_is_named_by_node_0_rather_than_by_a_rank() -> None:
    assert verdict([outcome(0, ExitCode.PEER_LOST)], 1, LOST, None).cause == LOST.cause


def test_ranks_are_not_killed_without_a_reason() -> None:
    with pytest.raises(ValueError, match="1 ranks were killed without a reason"):
        verdict([outcome(0, ExitCode.DONE)], 2, None, None)
