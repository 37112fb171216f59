"""The order of samples: a pure function of seed, epoch and data, in which only ``samples_consumed`` moves.

The run reads one endless stream: the permutation of epoch 0, then that of epoch 1, and so on. A global batch is the next stretch
of it and may cross the end of an epoch, so nothing is dropped, and neither world size, micro batch, accumulation nor the batch
of an earlier attempt changes which sample stands at which position.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SampleIds = npt.NDArray[np.int64]

PADDING = -1
"""Sample id that stands for no sample: it fills up the last evaluation batch."""


class DataOrder:
    """Sample ids by position.

    Args:
        seed: The run's seed.
        size: Samples in the training split.
        fingerprint: Identifies the data; another data set of the same size gets another order.
    """

    def __init__(self, seed: int, size: int, fingerprint: str) -> None:
        if size < 1:
            raise ValueError("an order needs at least one sample")
        self.seed, self.size, self.fingerprint = seed, size, fingerprint

    def batch_ids(self, samples_consumed: int, global_batch: int) -> SampleIds:
        """Ids at positions ``samples_consumed`` to ``samples_consumed + global_batch``, shape ``(global_batch,)``."""
        parts, position, wanted = [], samples_consumed, global_batch
        while wanted:
            epoch, offset = divmod(position, self.size)
            part = _permutation(self.seed, epoch, self.size, self.fingerprint)[offset:offset + wanted]
            parts.append(part)
            position, wanted = position + len(part), wanted - len(part)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def epoch(self, samples_consumed: int) -> float:
        """Epochs finished, with the started one as a fraction."""
        return samples_consumed / self.size


def rank_slice(ids: SampleIds, rank: int, world_size: int, micro: int) -> list[SampleIds]:
    """One rank's share of a global batch, cut into micro batches.

    A rank takes one contiguous stretch, so its share does not depend on how micro batch and accumulation split it.

    Raises:
        ValueError: The batch is not a multiple of ``world_size * micro``.
    """
    share, rest = divmod(len(ids), world_size)
    if rest or share % micro:
        raise ValueError(f"a global batch of {len(ids)} does not divide into {world_size} ranks with micro batches of {micro}")
    mine = ids[rank * share:(rank + 1) * share]
    return [mine[start:start + micro] for start in range(0, share, micro)]


def evaluation_slices(size: int, rank: int, world_size: int, micro: int) -> list[SampleIds]:
    """One rank's evaluation batches: every rank gets equally many of equal length, filled up with ``PADDING``."""
    stride = world_size * micro
    padded = np.full(-(-size // stride) * stride, PADDING, dtype=np.int64)
    padded[:size] = np.arange(size)
    return list(padded.reshape(-1, world_size, micro)[:, rank])


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, size: int, fingerprint: str) -> SampleIds:
    # numpy guarantees a bit generator's stream across releases (NEP 19), but not Generator.permutation's use of it. Sorting
    # random keys needs the stream alone; the stable sort settles equal keys.
    digest = hashlib.sha256(f"trainwright order v1:{seed}:{epoch}:{size}:{fingerprint}".encode()).digest()
    keys = np.random.PCG64(int.from_bytes(digest, "big")).random_raw(size)
    permutation = np.argsort(keys, kind="stable").astype(np.int64)
    permutation.setflags(write=False)
    return permutation
