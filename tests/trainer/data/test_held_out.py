from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.held_out import STRETCHES, Portion, divide


def everything(portion: Portion) -> list[int]:
    numbers: list[int] = portion.numbers(np.arange(len(portion))).tolist() if len(portion) else []
    return numbers


@given(size=st.integers(1, 5000), share=st.floats(0.0001, 0.9999))
def test_every_sample_is_on_one_side(size: int, share: float) -> None:
    train, held_out = divide(size, share)
    assert len(held_out) == round(size * share)  # as the contract's `train_samples` counts
    assert sorted(everything(train) + everything(held_out)) == list(range(size))
    assert everything(train) == sorted(everything(train))


@given(size=st.integers(2, 100_000), share=st.floats(0.001, 0.999))
def test_held_out_samples_lie_together(size: int, share: float) -> None:
    """At most one stretch begins in each 64th, so few held-out samples have a neighbour in training."""
    held_out = np.array(everything(divide(size, share)[1]))
    begins = 1 + np.count_nonzero(np.diff(held_out) > 1) if len(held_out) else 0
    assert begins <= STRETCHES


def test_every_part_of_the_text_is_evaluated() -> None:
    held_out = everything(divide(64_000, 0.05)[1])
    assert np.histogram(held_out, bins=64, range=(0, 64_000))[0].tolist() == [50] * 64
