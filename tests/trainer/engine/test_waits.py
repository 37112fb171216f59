"""Seconds in collectives, by the clock of what computes."""

from __future__ import annotations

import torch
from tests.gpu import NEEDS_GPU

from trainwright_trainer.engine.waits import Waits

CYCLES = 400_000_000
FASTEST_HERTZ = 3e9
"""No GPU's clock is as fast."""


@NEEDS_GPU
def test_a_gpu_waits_in_its_stream() -> None:
    """The host has gone on long before. Others may use the same GPU, so there is no more to say of how long it took."""
    waits = Waits(torch.device("cuda"))
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    began.record()
    for _ in range(2):
        with waits.counted():
            torch.cuda._sleep(CYCLES)  # type: ignore[no-untyped-call]
            with waits.waiting():
                torch.cuda._sleep(CYCLES // 4)  # type: ignore[no-untyped-call]
    with waits.waiting():  # of an evaluation
        torch.cuda._sleep(CYCLES)  # type: ignore[no-untyped-call]
    ended.record()
    found = waits.read()
    ended.synchronize()
    assert 2 * CYCLES / 4 / FASTEST_HERTZ < found < began.elapsed_time(ended) / 1000 / 2
    assert waits.read() == 0
