"""The same step at other numbers of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.commands.local.batch import divisors, refit
from trainwright_trainer.contract.failures import InvalidRunError


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 64))
def test_a_step_keeps_its_samples(micro: int, accumulation: int, replicas: int) -> None:
    samples = micro * accumulation * replicas
    for number in divisors(samples):
        passes = refit(samples, number, micro)
        assert passes.micro * passes.accumulation * number == samples
        assert passes.micro <= micro
    assert refit(samples, replicas, micro).micro == micro


def test_what_cannot_be_shared_names_what_can() -> None:
    with pytest.raises(InvalidRunError, match=r"12 samples, and 5 ranks cannot share them evenly; use one of 1, 2, 3, 4, 6, 12$"):
        refit(12, 5, 4)
    with pytest.raises(InvalidRunError, match="24 ranks"):
        refit(12, 24, 4)
