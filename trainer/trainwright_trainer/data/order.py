"""The order of samples, and what is drawn at random for each: pure functions in which only ``samples_consumed`` moves.

The run reads one endless stream: the permutation of epoch 0, then that of epoch 1, and so on. A global batch is the next stretch
of it and may cross the end of an epoch, so nothing is dropped, and neither world size, micro batch, accumulation nor the batch
of an earlier attempt changes which sample stands at which position.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SampleIds = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]
Uniforms = npt.NDArray[np.float64]

TABLE_SAMPLES = 2**22
"""Up to so many the order of an epoch is a table, of 32 MiB in each rank; beyond, each place is computed."""
_ROUNDS = 8
"""Of the Feistel network that computes it."""
# splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants by Stafford ("Mix13").
_STRIDE, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

PADDING = -1
"""Sample id that stands for no sample: it fills up the last evaluation batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Which samples to read, and where each stands in the run's endless stream."""

    ids: SampleIds
    """Shape ``(n,)``: numbers in the split, or ``PADDING``."""
    positions: Positions
    """Shape ``(n,)``: places in the stream. A sample's randomness follows from its place alone: the same at any world size."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> Samples:
        return Samples(self.ids[part], self.positions[part])


NOTHING = Samples(np.array([PADDING]), np.array([0]))
"""A micro batch that counts for nothing, for a rank that has no sample of a step and must not keep the others waiting."""


class DataOrder:
    """Samples by position.

    Args:
        seed: The run's seed.
        size: Samples in the training split.
        fingerprint: Identifies the data; another data set of the same size gets another order.
    """

    def __init__(self, seed: int, size: int, fingerprint: str) -> None:
        if size < 1:
            raise ValueError("an order needs at least one sample")
        self.seed, self.size, self.fingerprint = seed, size, fingerprint

    def batch(self, samples_consumed: int, global_batch: int) -> Samples:
        """The samples at positions ``samples_consumed`` to ``samples_consumed + global_batch``."""
        parts, position, wanted = [], samples_consumed, global_batch
        while wanted:
            epoch, offset = divmod(position, self.size)
            part = self._ids(epoch, offset, min(wanted, self.size - offset))
            parts.append(part)
            position, wanted = position + len(part), wanted - len(part)
        ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return Samples(ids, np.arange(samples_consumed, samples_consumed + global_batch, dtype=np.int64))

    def _ids(self, epoch: int, offset: int, count: int) -> SampleIds:
        key = f"{self.seed}:{epoch}:{self.size}:{self.fingerprint}"
        if self.size > TABLE_SAMPLES:
            return permuted(np.arange(offset, offset + count), self.size, key)
        return _table(self.size, key)[offset:offset + count]

    def epoch(self, samples_consumed: int) -> float:
        """Epochs finished, with the started one as a fraction."""
        return samples_consumed / self.size


def evaluation_slices(size: int, rank: int, world_size: int, micro: int) -> list[Samples]:
    """One rank's evaluation batches: every rank gets equally many of equal length, filled up with ``PADDING``.

    The positions are the ids: what is drawn at random is the same in each evaluation.
    """
    stride = world_size * micro
    padded = np.full(-(-size // stride) * stride, PADDING, dtype=np.int64)
    padded[:size] = np.arange(size)
    return [Samples(ids, ids) for ids in padded.reshape(-1, world_size, micro)[:, rank]]


@lru_cache(maxsize=2)
def _table(size: int, key: str) -> SampleIds:
    # numpy guarantees a bit generator's stream across releases (NEP 19), but not Generator.permutation's use of it. Sorting
    # random keys needs the stream alone; the stable sort settles equal keys.
    digest = hashlib.sha256(f"trainwright order v1:{key}".encode()).digest()
    keys = np.random.PCG64(int.from_bytes(digest, "big")).random_raw(size)
    permutation = np.argsort(keys, kind="stable").astype(np.int64)
    permutation.setflags(write=False)
    return permutation


def permuted(places: Positions, size: int, key: str) -> SampleIds:
    """What stands at these places of a permutation of ``range(size)`` that ``key`` names, shape ``(n,)``.

    A Feistel network over the next power of four permutes more numbers than are wanted; one that comes out too large goes
    through again until it fits, at most four times on average ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite
    domains", CT-RSA 2002). Eight rounds with splitmix64's finaliser mix well; nothing here is meant to be secret.

    Args:
        places: At least 0 and below ``size``.
        size: At least 1.
        key: Another key, another permutation.
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    digests = (hashlib.sha256(f"trainwright permutation v1:{key}:{number}".encode()).digest() for number in range(_ROUNDS))
    keys = [np.uint64(int.from_bytes(digest[:8], "big")) for digest in digests]
    found = _shuffled(places.astype(np.uint64), half, keys)
    while (outside := found >= size).any():
        found[outside] = _shuffled(found[outside], half, keys)
    return found.astype(np.int64)


def _shuffled(numbers: npt.NDArray[np.uint64], half: np.uint64, keys: list[np.uint64]) -> npt.NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = numbers >> half, numbers & mask
    for key in keys:
        left, right = right, left ^ (mix(right + key) & mask)
    return left << half | right


def uniforms(seed: int, purpose: str, positions: Positions, count: int) -> Uniforms:
    """Numbers in ``[0, 1)``, shape ``(len(positions), count)``.

    Row ``i`` depends on ``seed``, ``purpose`` and ``positions[i]`` alone, and its first numbers not on ``count``: however a
    stretch of the stream is cut into batches, a sample sees the same numbers. ``purpose`` keeps two uses of one sample apart,
    such as ``crop`` and ``mask``.

    A position and a place in its row are hashed to 64 bits (splitmix64's finaliser, once for each), of which 53 fill a float64.
    """
    digest = hashlib.sha256(f"trainwright samples v1:{seed}:{purpose}".encode()).digest()
    start = np.uint64(int.from_bytes(digest[:8], "big"))
    rows = mix(start + positions.astype(np.uint64) * _STRIDE)
    places = np.arange(1, count + 1, dtype=np.uint64) * _STRIDE
    return (mix(rows[:, np.newaxis] + places) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash 64 bits to 64 bits, one to one."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
