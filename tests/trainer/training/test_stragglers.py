"""A rank that is slower than the others is told from those that wait for it, under every engine of torch."""

from __future__ import annotations

from pathlib import Path

from tests.trainer.training.conftest import Rank, Ranks, Spec
from tests.trainer.training.rank_process import SLOW_ENV

from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.metrics import SLOW, Stragglers, own_seconds

SLOWER_SECONDS = 0.4


def test_a_slow_rank_is_told_from_those_that_wait(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """Two micro batches a step, so that gradients are summed in only one of the backward passes."""
    batch = {"micro": 16, "accumulation": 2}
    run = spec(tmp_path / "c", engine=engine, batch=batch, duration={"steps": 8}, log_every_steps=8)
    quick, slow = (paces(rank) for rank in ranks.finish(run, told={SLOW_ENV: f"1:{SLOWER_SECONDS}"}))
    assert quick[8].waited_seconds - slow[8].waited_seconds > SLOWER_SECONDS, (quick, slow)
    slowest = Stragglers().judge(own_seconds({0: quick[8], 1: slow[8]}))
    assert slowest.rank == 1
    assert slowest.ratio > SLOW, (quick, slow)


def paces(rank: Rank) -> dict[int, StepSplit]:
    """What a rank said of its steps."""
    return {event["step"]: StepSplit.model_validate(event["split"]) for event in rank.events("paced")}
