"""Replicas of TensorFlow's workers see what the ranks of a torch engine see."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract.training import WorldBatch
from trainwright_trainer.data.batch import share_step
from trainwright_trainer.data.dataset import Columns, HeldOut
from trainwright_trainer.data.order import DataOrder, evaluation_slices
from trainwright_trainer.rank.place import Place
from trainwright_trainer.tensorflow.batches import IGNORED, Batches


def numbered(size: int) -> Columns:
    """Samples whose label and only pixel are their number."""
    return Columns({
        "images": np.arange(size, dtype=np.float32).reshape(size, 1, 1, 1), "labels": np.arange(size, dtype=np.int64),
    })


@given(
    workers=st.integers(1, 3), replicas=st.integers(1, 3), micro=st.integers(1, 3), accumulation=st.integers(1, 3),
    size=st.integers(1, 40), consumed=st.integers(0, 100),
)
def test_training(workers: int, replicas: int, micro: int, accumulation: int, size: int, consumed: int) -> None:
    split, order = numbered(size), DataOrder(seed=3, size=size, fingerprint="x")
    shares = share_step(WorldBatch(micro=micro, accumulation=accumulation), workers * replicas)
    batch = order.batch(consumed, shares.samples)
    for worker in range(workers):
        ours = Batches(Place(worker, workers, 0, worker), replicas, micro).step(split, order, consumed, shares)
        assert len(ours) == accumulation
        for replica in range(replicas):
            for number, share in enumerate(shares.slices(batch, worker * replicas + replica)):
                found = ours[number][replica]
                np.testing.assert_array_equal(found.labels, share.ids)
                np.testing.assert_array_equal(found.images[:, 0, 0, 0], share.ids)


@given(workers=st.integers(1, 3), replicas=st.integers(1, 3), micro=st.integers(1, 4), size=st.integers(1, 40))
def test_evaluation(workers: int, replicas: int, micro: int, size: int) -> None:
    seen, counts = [], set()
    for worker in range(workers):
        batches = list(Batches(Place(worker, workers, 0, worker), replicas, micro).evaluation(HeldOut(numbered(size)), None))
        counts.add(len(batches))
        seen += [label for batch in batches for replica in batch for label in replica.labels if label != IGNORED]
        ranks = [evaluation_slices(size, worker * replicas + replica, workers * replicas, micro) for replica in range(replicas)]
        assert [len(replica.labels) for batch in batches for replica in batch] == [micro] * len(ranks[0]) * replicas
    assert sorted(seen) == list(range(size))
    assert len(counts) == 1


def test_channels_come_last() -> None:
    images = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    split = Columns({"images": images, "labels": np.zeros(1, dtype=np.int64)})
    [[batch]] = Batches(Place(0, 1, 0, 0), 1, 1).step(split, DataOrder(0, 1, "x"), 0, share_step(WorldBatch(micro=1), 1))
    assert batch.images.shape == (1, 3, 4, 2)
    assert batch.images[0, 2, 3, 1] == images[0, 1, 2, 3]
    assert batch.images.flags.c_contiguous
