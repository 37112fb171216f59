"""A permutation that is computed place by place, for data sets whose order would not fit in memory."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from trainwright_trainer.data.randomness import mix

_ROUNDS = 8

Numbers = npt.NDArray[np.int64]


def permuted(places: Numbers, size: int, key: str) -> Numbers:
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
