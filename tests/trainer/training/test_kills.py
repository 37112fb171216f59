"""What a real SIGKILL of a rank costs under every engine: nothing that was committed, and no bit of the result."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.processes import wait_until
from tests.trainer.training.conformance import SLOWED, assert_same_bits, committed, hard
from tests.trainer.training.conftest import Rank, Ranks, Spec

from trainwright_trainer.checkpoint import CheckpointStore

LIMIT_SECONDS = 30.0
"""In which the ranks that are left have noticed: in one on an idle machine."""


def saving_often(spec: Spec, directory: Path, engine: str) -> dict[str, Any]:
    built = hard(spec, directory, engine)
    built["work"]["checkpoints"]["every_steps"] = 1
    return built


def output_of(ranks: list[Rank]) -> str:
    return "\n".join(rank.output.read_text() for rank in ranks)


def has_committed(store: CheckpointStore, step: int) -> bool:
    return committed(store) >= step


def is_saving(store: CheckpointStore, attempt: str) -> bool:
    """Whether this attempt has begun a checkpoint that is not committed."""
    begun = [int(path.name.split(".")[0].removeprefix("step-")) for path in store.directory.glob(f"step-*.{attempt}")]
    return max(begun, default=0) > committed(store)


@pytest.mark.once
@pytest.mark.slow
def test_three_kills_lose_nothing_that_was_committed(
    ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "lineage"
    store, dice = CheckpointStore(directory), random.Random(f"kills of {engine}")
    for victim, in_a_save in ((1, False), (0, True), (0, False)):
        safe = committed(store)
        started = ranks.start(saving_often(spec, directory, engine), told=SLOWED)
        told = partial(output_of, started)
        wait_until(partial(has_committed, store, safe + dice.randrange(3, 9)), "commits", every=0.002, told=told)
        if in_a_save:
            wait_until(partial(is_saving, store, started[0].attempt), "a save", every=0.002, told=told)
        else:
            time.sleep(dice.uniform(0, 0.03))
        started[victim].kill()
        killed = time.monotonic()
        survivor = started[1 - victim]
        assert survivor.code() == 202, survivor.output.read_text()
        assert time.monotonic() - killed < LIMIT_SECONDS
        assert [event["step"] for event in started[0].events("restored")] == ([safe] if safe else [])
        store.release_lease_of(started[0].attempt)  # as its supervisor does, which knows that it is dead
    safe = committed(store)
    leader, _ = ranks.finish(saving_often(spec, directory, engine))
    assert [event["step"] for event in leader.events("restored")] == [safe]
    assert_same_bits(directory, uninterrupted)
