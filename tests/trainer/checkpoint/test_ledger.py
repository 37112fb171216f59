"""The ledger survives torn lines and counts the attempts that got nowhere."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright_trainer.checkpoint import StorageError
from trainwright_trainer.checkpoint.ledger import Ledger, Past
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted, AttemptTimes, Event


def start(ledger: Ledger, attempt: str, step: int | None, identity: str = "run-1") -> None:
    ledger.append(AttemptStarted(identity=identity, attempt=attempt, committed_step=step))


def end(ledger: Ledger, attempt: str, code: ExitCode, step: int | None = None, identity: str = "run-1") -> None:
    ledger.append(AttemptEnded(identity=identity, attempt=attempt, code=code, committed_step=step))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "lineage" / "attempts.jsonl"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger(path.parent)


def test_events_are_read_back(ledger: Ledger, path: Path) -> None:
    assert list(ledger.events()) == []
    events: list[Event] = [
        AttemptStarted(identity="run-1", attempt="a", committed_step=None),
        AttemptTimes(identity="run-1", attempt="a", seconds={"training": 12.5, "saving": 0.5}, step=41),
        AttemptEnded(identity="run-1", attempt="a", code=202, committed_step=40),
    ]
    for event in events:
        ledger.append(event)
    assert list(ledger.events()) == events
    assert path.exists()


def test_attempts_at_one_commit_are_counted(ledger: Ledger) -> None:
    assert ledger.attempts_without_progress("run-1") == 0
    for number, attempt in enumerate("abc", 1):
        start(ledger, attempt, None)
        assert ledger.attempts_without_progress("run-1") == number
        end(ledger, attempt, ExitCode.PEER_LOST)


def test_progress_starts_the_count_again(ledger: Ledger) -> None:
    for attempt, step in (("a", None), ("b", None), ("c", 40), ("d", 40), ("e", 40)):
        start(ledger, attempt, step)
    assert ledger.attempts_without_progress("run-1") == 3
    start(ledger, "f", 50)
    assert ledger.attempts_without_progress("run-1") == 1
    start(ledger, "g", 40)  # 50 was damaged: a fall-back is a row of its own
    assert ledger.attempts_without_progress("run-1") == 1


def test_step_0_is_not_none(ledger: Ledger) -> None:
    start(ledger, "a", None)
    start(ledger, "b", 0)
    assert ledger.attempts_without_progress("run-1") == 1


@pytest.mark.parametrize("code", [ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED])
def test_preempted_attempts_do_not_count(ledger: Ledger, code: ExitCode) -> None:
    for attempt in "abc":
        start(ledger, attempt, 40)
    end(ledger, "b", code, 40)
    assert ledger.attempts_without_progress("run-1") == 2


def test_a_long_attempt_is_progress_where_nobody_knows_the_commits(ledger: Ledger) -> None:
    begun = datetime(2025, 1, 1, tzinfo=UTC)
    for attempt, minutes in (("a", 0), ("b", 5), ("c", 65), ("d", 66), ("e", 60)):  # the clock jumped back before e
        time = begun + timedelta(minutes=minutes)
        ledger.append(AttemptStarted(identity="run-1", attempt=attempt, committed_step=None, time=time))
    assert ledger.attempts_without_progress("run-1", timedelta(minutes=30)) == 3
    assert ledger.attempts_without_progress("run-1") == 5


def test_each_identity_has_its_own_count(ledger: Ledger) -> None:
    start(ledger, "a", None)
    start(ledger, "b", 40, identity="run-2")
    end(ledger, "a", ExitCode.PREEMPTED_SAVED, 40, identity="run-2")
    start(ledger, "c", None)
    assert ledger.attempts_without_progress("run-1") == 2
    assert ledger.attempts_without_progress("run-2") == 1
    assert ledger.attempts_without_progress("run-3") == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(cut=st.integers(1, 200))
def test_a_torn_line_costs_only_itself(ledger: Ledger, path: Path, cut: int) -> None:
    path.unlink(missing_ok=True)
    start(ledger, "a", 1)
    whole = path.stat().st_size
    start(ledger, "b", 1)
    size = path.stat().st_size
    os.truncate(path, max(whole, size - cut))
    start(ledger, "c", 1)
    attempts = [event.attempt for event in ledger.events()]
    assert attempts == (["a", "b", "c"] if cut == 1 else ["a", "c"])  # only the line feed was lost


@pytest.mark.parametrize("line", [b"\0\0\0", b"{}", b'{"event":"started"}', b"\xff\xfe", b"", b'{"event":"unknown"}'])
def test_damaged_lines_are_passed_over(ledger: Ledger, path: Path, line: bytes) -> None:
    start(ledger, "a", 1)
    with open(path, "ab") as file:
        file.write(line + b"\n")
    start(ledger, "b", 1)
    assert [event.attempt for event in ledger.events()] == ["a", "b"]


def test_a_directory_in_the_way(ledger: Ledger, path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StorageError, match=r"attempts\.jsonl"):
        start(ledger, "a", 1)
    with pytest.raises(StorageError, match=r"attempts\.jsonl"):
        ledger.attempts_without_progress("run-1")


def test_many_writers_lose_no_line(ledger: Ledger) -> None:
    start(ledger, "first", None)
    children = []
    for writer in range(4):
        child = os.fork()
        if not child:
            try:
                for number in range(25):
                    start(ledger, f"{writer}-{number}", 1)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert len(list(ledger.events())) == 101


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def test_the_past(ledger: Ledger) -> None:
    assert ledger.past("run-1") == Past()

    def started(attempt: str, second: int, identity: str = "run-1") -> None:
        ledger.append(AttemptStarted(identity=identity, attempt=attempt, committed_step=None, time=at(second)))

    def times(attempt: str, second: int, training: float, step: int) -> None:
        seconds = {"training": training, "replaying": 5.0}
        ledger.append(AttemptTimes(identity="run-1", attempt=attempt, seconds=seconds, step=step, time=at(second)))

    started("a", 0)
    assert ledger.past("run-1") == Past(attempts=1)
    times("a", 60, 40, 10)
    times("a", 100, 75, 20)  # the later one says it all, and then the pod was killed
    started("other", 110, "run-2")
    started("b", 130)  # was killed before it noted anything
    started("c", 150)
    assert ledger.past("run-1") == Past(attempts=3, age_seconds=150, productive_seconds=75, down_seconds=50, reached_step=20)


def test_clocks_that_differ_make_no_negative_time(ledger: Ledger) -> None:
    for attempt, second in (("a", 100), ("b", 0)):
        ledger.append(AttemptStarted(identity="run-1", attempt=attempt, committed_step=None, time=at(second)))
    assert ledger.past("run-1") == Past(attempts=2)
