"""Which rank does what: whatever the grid, each sample is read and each shard is written by one rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract.engine import FSDP2, DDPSettings
from trainwright_trainer.contract.sharding import Layout, of_ddp, of_deepspeed, of_fsdp2

LAYOUTS = st.builds(Layout, st.integers(1, 12), st.integers(1, 12))


@given(layout=LAYOUTS)
def test_every_shard_has_one_writer(layout: Layout) -> None:
    ranks = range(layout.readers)
    written = [shard for rank in ranks if (shard := layout.written(rank)) is not None]
    assert sorted(written) == list(range(layout.shard))
    assert all(layout.written(rank) in (None, rank % layout.shard) for rank in ranks), "a rank writes the shard that it has"


@given(layout=LAYOUTS)
def test_every_reader_is_one_rank(layout: Layout) -> None:
    assert sorted(map(layout.reader, range(layout.readers))) == list(range(layout.readers))


@given(layout=LAYOUTS, per_pod=st.integers(1, 16))
def test_groups_take_turns_so_that_pods_write_about_as_much(layout: Layout, per_pod: int) -> None:
    writers = layout.writers(per_pod)
    assert sum(writers.values()) == layout.shard
    in_groups = [sum(layout.written(replica * layout.shard + rank) is not None for rank in range(layout.shard))
                 for replica in range(layout.replicate)]
    assert max(in_groups) - min(in_groups) <= 1


def test_a_layout_is_that_of_the_engine() -> None:
    assert of_ddp(DDPSettings(), 8).layout == Layout(replicate=8)
    assert of_fsdp2(None, 8).layout == Layout(shard=8)
    groups = of_fsdp2(FSDP2(shard_degree=4), 8)
    assert groups.layout == Layout(replicate=2, shard=4)
    assert groups.at(32) == Layout(replicate=8, shard=4)
    for stage, weights, gradients, optimizer in ((0, 1, 1, 1), (1, 1, 1, 8), (2, 1, 8, 8), (3, 8, 8, 8)):
        sharding = of_deepspeed({"zero_optimization": {"stage": stage}}, 8)
        assert (sharding.share(3), sharding.share(2), sharding.share(1)) == (weights, gradients, optimizer)
    with pytest.raises(ValueError, match="groups of 4 ranks do not divide 6 ranks"):
        groups.at(6)
