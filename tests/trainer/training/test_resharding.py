"""What every engine must hold when the number of ranks changes between two attempts."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.training.conformance import assert_close, forget_after, losses, newest, weights
from tests.trainer.training.conftest import Finished, Rank, Ranks, Spec

SHARES = {1: {"micro": 16, "accumulation": 2}, 2: {"micro": 16}, 4: {"micro": 8}}
"""Ranks -> how each takes its part of the same 32 samples."""
STEPS, EVERY = 12, 4


def finish(ranks: Ranks, spec: Spec, directory: Path, engine: str, world: int) -> list[Rank]:
    work: dict[str, Any] = {"batch": SHARES[world], "duration": {"steps": STEPS}}
    return ranks.finish(spec(
        directory, world=world, engine=engine, checkpoints={"directory": str(directory), "every_steps": EVERY}, **work
    ))


def consumed(ranks: list[Rank]) -> dict[int, list[int]]:
    """The samples of each step, in the order of the run's stream: the first rank has the first of them."""
    told = [rank.samples() for rank in ranks]
    return {step: [number for samples in told for number in samples[step]] for step in told[0]}


def assert_opened_once(ranks: list[Rank], tree: str) -> None:
    """All ranks together have asked for the size of each data file once and read each of its chunks once, of which it has one."""
    opened = Counter(
        path for rank in ranks for told in rank.events("weights_held") for path in told["opened"] if path.startswith(f"{tree}/")
    )
    assert opened
    assert set(opened.values()) == {2}, opened


@pytest.fixture(scope="session")
def two_ranks(session_ranks: Ranks, spec: Spec, engine: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    directory = tmp_path_factory.mktemp("two-ranks") / "lineage"
    return Finished(directory, finish(session_ranks, spec, directory, engine, 2))


@pytest.mark.parametrize("worlds", [
    pytest.param((2, 1, 2), id="2 to 1 to 2"),
    pytest.param((2, 4), id="2 to 4", marks=[pytest.mark.communication, pytest.mark.once]),
])  # fmt: skip
def test_resume_at_another_world_size_sees_the_same_samples(
    ranks: Ranks, spec: Spec, engine: str, two_ranks: Finished, worlds: tuple[int, ...], tmp_path: Path
) -> None:
    directory = tmp_path / "lineage"
    shutil.copytree(two_ranks.directory, directory)
    expected, samples = losses(two_ranks.ranks[0]), consumed(two_ranks.ranks)
    for leg, (before, world) in enumerate(pairwise(worlds), start=1):
        step = leg * EVERY
        forget_after(directory, step)
        here = finish(ranks, spec, directory, engine, world)
        [restored] = here[0].events("restored")
        assert (restored["step"], restored["from_world_size"]) == (step, before)
        assert_opened_once(here, restored["path"])
        following = set(range(step + 1, STEPS + 1))
        assert consumed(here) == {each: samples[each] for each in following}
        # The same samples in another order of summation: fp32 rounding, which Adam amplifies with every step.
        assert losses(here[0]) == pytest.approx({each: expected[each] for each in following}, rel=1e-3)
    assert newest(directory).samples_consumed == newest(two_ranks.directory).samples_consumed
    # Adam's first steps are as long for a gradient that is all rounding as for any other: at most the sum of the rates.
    assert_close(weights(directory), weights(two_ranks.directory), rtol=1e-3, atol=1e-3)
