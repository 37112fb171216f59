"""Where an image is cut: crops drawn for training, and the one crop of an evaluation."""

from __future__ import annotations

import math
from typing import NamedTuple

from trainwright_trainer.data.randomness import Uniforms

AREA = (0.08, 1.0)
"""Share of the image that a training crop covers."""
RATIO = (3 / 4, 4 / 3)
"""Width by height of a training crop."""
EVALUATION_SHARE = 224 / 256
"""Of the shorter side: ImageNet's custom of resizing it to 256 pixels and cutting out 224."""

_TRIES = 10
NUMBERS = 2 * _TRIES + 3
"""Random numbers that one training sample takes."""


class Box(NamedTuple):
    """Edges in pixels of the image, as Pillow counts them."""

    left: float
    top: float
    right: float
    bottom: float


def training_crop(width: int, height: int, numbers: Uniforms) -> tuple[Box, bool]:
    """A box of random area and shape, and whether to mirror it.

    Area and ratio are drawn up to ten times until the box fits, then its place; if none fits, it is the centre with the nearest
    ratio (Szegedy et al., "Going deeper with convolutions", 2014; the procedure of torchvision's RandomResizedCrop).

    Args:
        width: Of the image, in pixels.
        height: Of the image, in pixels.
        numbers: ``NUMBERS`` of them in ``[0, 1)``.
    """
    x, y, mirror = numbers[2 * _TRIES:].tolist()
    for area_number, ratio_number in numbers[:2 * _TRIES].reshape(_TRIES, 2).tolist():
        area = width * height * (AREA[0] + (AREA[1] - AREA[0]) * area_number)
        ratio = math.exp(math.log(RATIO[0]) + (math.log(RATIO[1]) - math.log(RATIO[0])) * ratio_number)
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = int(x * (width - across + 1)), int(y * (height - down + 1))
            return Box(left, top, left + across, top + down), mirror < 0.5
    across_most, down_most = max(1, round(height * RATIO[1])), max(1, round(width / RATIO[0]))
    return _centre(width, height, min(width, across_most), min(height, down_most)), mirror < 0.5


def evaluation_crop(width: int, height: int) -> Box:
    """The square in the middle, 224/256 of the shorter side."""
    side = min(width, height) * EVALUATION_SHARE
    return _centre(width, height, side, side)


def _centre(width: int, height: int, across: float, down: float) -> Box:
    left, top = (width - across) / 2, (height - down) / 2
    return Box(left, top, left + across, top + down)
