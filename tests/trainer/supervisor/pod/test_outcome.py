"""What a rank's last word and its exit status mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trainer.supervisor.conftest import training_work

from trainwright_trainer.contract import Cause, ExitCode, Script, Training
from trainwright_trainer.rank.messages import Result
from trainwright_trainer.supervisor.pod.outcome import outcome_after_sigterm, outcome_of

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
    (SCRIPT, -9, 200, "rank 3 was killed by SIGKILL, perhaps because the pod ran out of memory"),
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
