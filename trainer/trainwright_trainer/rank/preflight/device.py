"""Device check: does it compute right, every time, and how fast?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.preflight.failure import UnfitError

SIZES = {"cuda": 4096, "cpu": 512}
"""Rows of the square matrices: large enough to keep a GPU busy, small enough to be checked on the host in a moment."""
LARGEST_EXACT = 256
"""Integers up to there are exact in bfloat16, which has 8 significant bits."""
MOST_SECONDS = 2.0
MOST_PRODUCTS = 50


class Matrices(Protocol):
    """Two matrices on a device: in bfloat16 on a GPU, in float32 on a CPU."""

    def product(self) -> Any:
        """Multiply them, and wait until that is done."""

    def same(self, first: Any, second: Any) -> bool:
        """Whether two products have the same numbers."""

    def on_host(self, product: Any) -> Array:
        """Its numbers as float32."""


OnDevice = Callable[[Array, Array], Matrices]
"""Puts two matrices, float32 with small integers, on a device."""


class WrongNumbersError(UnfitError):
    """The device computed something that is not so."""


def check_device(put: OnDevice, device: str) -> float:
    """Multiply matrices of small integers until a second or two have passed.

    The product is right if (A B) x = A (B x), computed in integers on the host (Freivalds), and if every repetition gives the
    same bits.

    Args:
        put: Puts matrices on the device.
        device: Of which kind it is, ``cuda`` or ``cpu``.

    Returns:
        10^12 floating point operations per second, of the fastest product: 2 n^3 operations each.

    Raises:
        WrongNumbersError: A product is not right.
    """
    size = SIZES.get(device, SIZES["cpu"])
    left, right = integers(size)
    matrices = put(left, right)
    product = matrices.product()
    _verify(left, right, matrices.on_host(product))
    fastest, began = float("inf"), time.monotonic()
    for _ in range(MOST_PRODUCTS):
        started = time.perf_counter()
        again = matrices.product()
        fastest = min(fastest, max(time.perf_counter() - started, 1e-9))
        if not matrices.same(again, product):
            raise WrongNumbersError("the same matrix product gave other numbers the second time")
        if time.monotonic() - began > MOST_SECONDS:
            break
    return 2 * size**3 / fastest / 1e12


def integers(size: int) -> tuple[Array, Array]:
    """Matrices of -1, 0 and 1. A row of the first has so few that no sum leaves the integers that are exact."""
    random, place = np.random.default_rng(0), np.arange(size)
    left, right = (random.integers(0, 2, (size, size), dtype=np.int8) * 2 - 1 for _ in range(2))
    left *= (place[:, None] + place) % (size // LARGEST_EXACT) == 0
    return left.astype(np.float32), right.astype(np.float32)


def _verify(left: Array, right: Array, product: Array) -> None:
    # Of -3, -1, 1 and 3: a zero would hide what is wrong in its column. No sum of these integers leaves what float32 holds
    # exactly, 2^24, in whatever order they are added.
    vector = (np.random.default_rng(1).integers(0, 4, len(right)) * 2 - 3).astype(np.float32)
    found, expected = product @ vector, left @ (right @ vector)
    wrong = int((found != expected).sum())
    if wrong:
        raise WrongNumbersError(f"{wrong} of {len(found)} rows of a matrix product are wrong")
