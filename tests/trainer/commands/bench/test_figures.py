"""Figures from accounts of steps."""

from __future__ import annotations

import pytest

from trainwright_trainer.commands.bench.run import speed
from trainwright_trainer.training.witness import StepTime


def account(seconds: list[float], data_seconds: float, peak: int) -> list[StepTime]:
    at, steps = 100.0, []
    for step, each in enumerate(seconds, start=1):
        at += each
        steps.append(StepTime(step=step, at=at, data_seconds=data_seconds, peak_bytes=peak + step, device="cpu"))
    return steps


def test_warm_up_counts_for_nothing() -> None:
    slow_start = [9.0, 5.0] + [0.1] * 9 + [0.3]
    accounts = {0: account(slow_start, 0.01, 1000), 1: account(slow_start, 0.03, 2000)}
    found = speed(accounts, warm_up=2, steps=10, samples=32, tokens_each=64)
    assert found.samples_per_second == pytest.approx(10 * 32 / 1.2)
    assert found.tokens_per_second == pytest.approx(10 * 32 * 64 / 1.2)
    assert found.step_seconds == pytest.approx(0.1)
    assert found.step_seconds_p10 == pytest.approx(0.1)
    assert found.step_seconds_p90 == pytest.approx(0.12)
    assert found.data_rank == 1
    assert found.data_share == pytest.approx(0.3 / 1.2)
    assert found.peak_bytes == 2012
