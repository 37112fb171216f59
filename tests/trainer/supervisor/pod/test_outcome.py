"""Exit codes: of one rank, and of a pod."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trainer.supervisor.conftest import training_work

from trainwright_trainer.contract import Cause, ExitCode, Script, Training
from trainwright_trainer.rank.messages import Result
from trainwright_trainer.supervisor.pod.outcome import PodOutcome, RankOutcome, outcome_after_sigterm, outcome_of, pod_outcome

TRAINER = Training.model_validate_json(json.dumps(training_work(Path("/state"))))
SCRIPT = Script(command=("train",))
PROTOCOL = Script(command=("train",), protocol=True)


@pytest.mark.parametrize(("work", "status", "code", "words"), [
    (TRAINER, 0, 200, "rank 3 exited with 0 and never said that it was done"),
    (TRAINER, 1, 200, "rank 3 exited with 1"),
    (TRAINER, 14, 14, "rank 3 exited with 14"),
    (TRAINER, -9, 200, "rank 3 was killed by SIGKILL, perhaps because the pod ran out of memory"),
    (TRAINER, -11, 200, "rank 3 was killed by SIGSEGV"),
    (TRAINER, -40, 200, "rank 3 was killed by signal 40"),
    (SCRIPT, 1, 220, "rank 3 exited with 1"),
    (SCRIPT, 14, 220, "rank 3 exited with 14"),
    (SCRIPT, -11, 220, "rank 3 was killed by SIGSEGV"),
    (SCRIPT, -9, 220, "rank 3 was killed by SIGKILL, perhaps because the pod ran out of memory"),
    (PROTOCOL, 14, 14, "rank 3 exited with 14"),
    (PROTOCOL, 1, 220, "rank 3 exited with 1"),
])
def test_exit_status(work: Training | Script, status: int, code: int, words: str) -> None:
    outcome = outcome_of(3, work, None, status, 1.5)
    assert (outcome.rank, outcome.code, outcome.at) == (3, code, 1.5)
    assert outcome.cause is not None
    assert (outcome.cause.rank, outcome.cause.message) == (3, words)


def test_a_script_that_exits_with_0_is_done() -> None:
    assert outcome_of(3, SCRIPT, None, 0, 0).code is ExitCode.DONE


@given(st.sampled_from(list(ExitCode)), st.sampled_from([None, 0, 1, -9]))
def test_a_word_stands_whatever_the_exit_status(code: ExitCode, status: int | None) -> None:
    said = Result(code=code, cause=Cause(kind="Said", message="so"))
    outcome = outcome_of(3, TRAINER, said, status, 0)
    assert outcome.code is code
    assert outcome.cause == Cause(rank=3, kind="Said", message="so")


def test_a_word_without_a_cause_gets_one() -> None:
    cause = outcome_of(3, TRAINER, Result(code=14), None, 0).cause
    assert cause is not None
    assert cause.message == "rank 3 ended with code 14 and gave no cause"
    assert outcome_of(3, TRAINER, Result(code=0), None, 0).cause is None


def test_a_code_that_nobody_knows_is_an_internal_error() -> None:
    outcome = outcome_of(3, TRAINER, Result(code=77), None, 0)
    assert outcome.code is ExitCode.INTERNAL
    assert outcome.cause is not None
    assert "77" in outcome.cause.message


def test_a_rank_that_neither_spoke_nor_ended_has_no_outcome() -> None:
    with pytest.raises(ValueError, match="neither"):
        outcome_of(3, TRAINER, None, None, 0)


@given(st.integers(-64, 255))
def test_after_sigterm_a_plain_script_has_saved_nothing_that_we_know_of(status: int) -> None:
    assert outcome_after_sigterm(3, SCRIPT, status, 0).code is ExitCode.PREEMPTED_NOT_SAVED


@pytest.mark.parametrize(("status", "code"), [(0, 211), (210, 210), (211, 211), (203, 203), (1, 211), (-15, 211), (-9, 211)])
def test_after_sigterm_the_protocol_is_believed(status: int, code: int) -> None:
    assert outcome_after_sigterm(3, PROTOCOL, status, 0).code == code


STOP = Cause(kind="ToldToEnd", message="told to end")
LOST = PodOutcome(ExitCode.PEER_LOST, Cause(kind="PeerLost", message="node 1 is lost"))
QUIET = {ExitCode.DONE, ExitCode.PEER_LOST, ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED}


def outcome(rank: int, code: ExitCode, at: float = 0.0) -> RankOutcome:
    cause = None if code is ExitCode.DONE else Cause(rank=rank, kind="Test", message=f"rank {rank}")
    return RankOutcome(rank, code, at, cause)


@st.composite
def outcomes(draw: st.DrawFn) -> list[RankOutcome]:
    codes = draw(st.lists(st.sampled_from(list(ExitCode)), min_size=1, max_size=8))
    times = draw(st.lists(st.floats(0, 10), min_size=len(codes), max_size=len(codes)))
    return [outcome(rank, code, at) for rank, (code, at) in enumerate(zip(codes, times, strict=True))]


orders = st.sampled_from([None, LOST, PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, STOP)])
stops = st.sampled_from([None, STOP])


@given(outcomes(), orders, stops, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(
    known: list[RankOutcome], order: PodOutcome | None, stopping: Cause | None, random: object
) -> None:
    shuffled = sorted(known, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert pod_outcome(shuffled, len(known), order, stopping) == pod_outcome(known, len(known), order, stopping)


@given(outcomes(), orders, stops)
def test_the_earliest_real_failure_wins(known: list[RankOutcome], order: PodOutcome | None, stopping: Cause | None) -> None:
    failures = sorted((one for one in known if one.code not in QUIET), key=lambda one: (one.at, one.rank))
    decided = pod_outcome(known, len(known), order, stopping)
    if failures:
        assert decided == PodOutcome(failures[0].code, failures[0].cause)
    else:
        assert decided.code in QUIET


@given(outcomes(), orders, stops)
def test_done_means_that_every_rank_is(known: list[RankOutcome], order: PodOutcome | None, stopping: Cause | None) -> None:
    if pod_outcome(known, len(known), order, stopping).code is ExitCode.DONE:
        assert {one.code for one in known} == {ExitCode.DONE}


@given(outcomes(), orders, stops, st.integers(1, 4))
def test_a_killed_rank_is_never_done_nor_saved(
    known: list[RankOutcome], order: PodOutcome | None, stopping: Cause | None, killed: int
) -> None:
    if order is None and stopping is None and {one.code for one in known} == {ExitCode.DONE}:
        return  # nothing would have killed it
    decided = pod_outcome(known, len(known) + killed, order, stopping)
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
def test_table(codes: list[int], order: PodOutcome | None, stopping: Cause | None, expected: int) -> None:
    known = [outcome(rank, ExitCode(code), rank) for rank, code in enumerate(codes)]
    assert pod_outcome(known, len(known), order, stopping).code == expected


def test_a_lost_peer_is_named_by_node_0_rather_than_by_a_rank() -> None:
    assert pod_outcome([outcome(0, ExitCode.PEER_LOST)], 1, LOST, None).cause == LOST.cause


def test_ranks_are_not_killed_without_a_reason() -> None:
    with pytest.raises(ValueError, match="1 ranks were killed without a reason"):
        pod_outcome([outcome(0, ExitCode.DONE)], 2, None, None)
