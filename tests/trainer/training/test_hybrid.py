"""HSDP: engine ``fsdp2`` with weights sharded within groups of ranks that replicate each other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.training.conformance import assert_close, assert_same_bits, forget_after, losses, newest, norms, weights
from tests.trainer.training.conftest import Finished, Rank, Ranks, Spec
from tests.trainer.training.rank_process import SLOW_ENV
from tests.trainer.training.test_stragglers import paces

from trainwright_trainer.observe.metrics import SLOW, Stragglers, own_seconds

STEPS, EVERY = 6, 2
GROUPS_OF_2: dict[str, Any] = {"fsdp2": {"shard_degree": 2}}
SHARES = {2: {"micro": 8, "accumulation": 2}, 4: {"micro": 4, "accumulation": 2}}
"""Ranks -> how each takes its part of the same 32 samples, in two micro batches."""


def hybrid(spec: Spec, directory: Path, world: int = 4, **work: Any) -> dict[str, Any]:
    kept = {"directory": str(directory), "every_steps": EVERY}
    whole = {"batch": SHARES[world], "duration": {"steps": STEPS}, "checkpoints": kept, **work}
    return spec(directory, world=world, engine="fsdp2", **whole)


@pytest.fixture(scope="module")
def two_by_two(session_ranks: Ranks, spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    directory = tmp_path_factory.mktemp("two-by-two") / "lineage"
    return Finished(directory, session_ranks.finish(hybrid(spec, directory, **GROUPS_OF_2)))


@pytest.fixture(scope="module")
def fully_sharded(session_ranks: Ranks, spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    directory = tmp_path_factory.mktemp("fully-sharded") / "lineage"
    return Finished(directory, session_ranks.finish(hybrid(spec, directory)))


def from_step(directory: Path, folder: Path, step: int) -> Path:
    """A copy of a lineage that goes on from this step."""
    copy = folder / "lineage"
    shutil.copytree(directory, copy)
    forget_after(copy, step)
    return copy


def test_trains_as_one_group_does(two_by_two: Finished, fully_sharded: Finished) -> None:
    """The same sums in another order: losses, and the norm over all shards, of which each counts once."""
    [hybrid, whole] = (run.ranks[0] for run in (two_by_two, fully_sharded))
    assert losses(hybrid) == pytest.approx(losses(whole), rel=1e-3)
    assert norms(hybrid) == pytest.approx(norms(whole), rel=1e-2)
    # Adam's first steps are as long for a gradient that is all rounding as for any other: at most the sum of the rates.
    assert_close(weights(two_by_two.directory), weights(fully_sharded.directory), rtol=1e-3, atol=1e-3)


def test_each_shard_is_saved_once(two_by_two: Finished) -> None:
    names = {file.name for file in newest(two_by_two.directory).files}
    assert {name for name in names if name.startswith(("weights-", "optimizer-"))} == {
        f"{kind}-{shard:05d}.safetensors" for kind in ("weights", "optimizer") for shard in (0, 1)
    }


def test_resumes_with_the_same_bits(ranks: Ranks, spec: Spec, two_by_two: Finished, tmp_path: Path) -> None:
    directory = from_step(two_by_two.directory, tmp_path, EVERY)
    resumed = ranks.finish(hybrid(spec, directory, **GROUPS_OF_2))
    assert min(losses(resumed[0])) == EVERY + 1
    assert_same_bits(directory, two_by_two.directory)


def test_resumes_fully_sharded_then_at_half_the_ranks_then_in_groups_again(
    ranks: Ranks, spec: Spec, two_by_two: Finished, fully_sharded: Finished, tmp_path: Path
) -> None:
    directory, expected = from_step(two_by_two.directory, tmp_path, EVERY), losses(fully_sharded.ranks[0])
    legs: tuple[tuple[int, dict[str, Any]], ...] = ((4, {}), (2, {}), (4, GROUPS_OF_2))
    for step, (world, settings) in zip((EVERY, 2 * EVERY, 2 * EVERY), legs, strict=True):
        forget_after(directory, step)
        here = ranks.finish(hybrid(spec, directory, world, **settings))
        assert restored(here) == step
        following = {each: expected[each] for each in range(step + 1, STEPS + 1)}
        assert losses(here[0]) == pytest.approx(following, rel=1e-3)
    assert_close(weights(directory), weights(fully_sharded.directory), rtol=1e-3, atol=1e-3)


def restored(ranks: list[Rank]) -> int:
    """The step that a run went on from."""
    [event] = ranks[0].events("restored")
    return int(event["step"])


def test_a_slow_rank_is_told_from_those_that_wait_in_its_group_and_in_others(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """Rank 0 waits for rank 1 when they scatter sums, ranks 2 and 3 wait when groups sum theirs."""
    slower = 0.3
    run = hybrid(spec, tmp_path / "c", duration={"steps": 4}, log_every_steps=4, **GROUPS_OF_2)
    told = [paces(rank)[4] for rank in ranks.finish(run, told={SLOW_ENV: f"1:{slower}"})]
    slow = told.pop(1)
    assert all(quick.waited_seconds - slow.waited_seconds > slower for quick in told), (told, slow)
    slowest = Stragglers().judge(own_seconds({0: told[0], 1: slow, 2: told[1], 3: told[2]}))
    assert slowest.rank == 1
    assert slowest.ratio > SLOW, (told, slow)
