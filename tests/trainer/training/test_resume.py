"""The order in which commits are tried for a resume."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from trainwright_trainer.checkpoint import CommitRecord
from trainwright_trainer.checkpoint.keeper import in_order
from trainwright_trainer.rank.messages import RESUME_BEFORE_ENV
from trainwright_trainer.training.start import log_passed_over, resume_before


def commits(*steps: int) -> list[CommitRecord]:
    return [
        CommitRecord(identity="i", attempt=f"a{number}", step=step, samples_consumed=step, world_size=1, files=())
        for number, step in enumerate(steps)
    ]


@pytest.mark.parametrize(("before", "steps"), [
    (None, [40, 40, 30, 20]),
    (40, [30, 20, 40, 40]),
    (35, [30, 20, 40, 40]),
    (20, [40, 40, 30, 20]),
    (50, [40, 40, 30, 20]),
])
def test_commits_before_a_step_come_first(before: int | None, steps: list[int]) -> None:
    records = commits(40, 40, 30, 20)
    found = in_order(records, before)
    assert [record.step for record in found] == steps
    assert [record for record in found if record.step == 40] == records[:2], "newest first, among the others too"


@pytest.mark.parametrize(("before", "taken", "told"), [(40, 1, True), (40, 0, False), (None, 1, False), (50, 0, False)])
def test_what_is_passed_over_is_told(before: int | None, taken: int, told: bool) -> None:
    records = commits(40, 30)
    with capture_logs() as said:
        log_passed_over(records, records[taken], before)
    facts = [(line["event"], line["log_level"], line["step"]) for line in said]
    assert facts == [("checkpoint_passed_over", "warning", 40)] * told
    assert all("step-30.a1" in line["reason"] for line in said)


def test_the_step_comes_from_the_environment() -> None:
    assert resume_before({RESUME_BEFORE_ENV: "40"}) == 40
    assert resume_before({}) is None
    assert resume_before({RESUME_BEFORE_ENV: "what a person wrote"}) is None
