"""Randomness of samples: a pure function of seed, purpose and position."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Uniforms = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

# splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants by Stafford ("Mix13").
_STRIDE, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


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
