from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.crop import AREA, NUMBERS, RATIO, evaluation_crop, training_crop
from trainwright_trainer.data.randomness import uniforms

sides = st.integers(1, 3000)


@given(width=sides, height=sides, position=st.integers(0, 2**40))
def test_a_crop_lies_within_the_image(width: int, height: int, position: int) -> None:
    box, _ = training_crop(width, height, uniforms(1, "crop", np.array([position]), NUMBERS)[0])
    assert 0 <= box.left < box.right <= width
    assert 0 <= box.top < box.bottom <= height
    middle = evaluation_crop(width, height)
    assert 0 <= middle.left < middle.right <= width
    assert 0 <= middle.top < middle.bottom <= height


def test_areas_ratios_places_and_mirrors_are_spread() -> None:
    """As stated, over 4,000 crops of a large square."""
    drawn = [training_crop(2000, 2000, numbers) for numbers in uniforms(2, "crop", np.arange(4000), NUMBERS)]
    areas = np.array([(box.right - box.left) * (box.bottom - box.top) / 2000**2 for box, _ in drawn])
    ratios = np.array([(box.right - box.left) / (box.bottom - box.top) for box, _ in drawn])
    assert AREA[0] * 0.99 < areas.min() < 0.1
    assert 0.9 < areas.max() <= 1
    assert RATIO[0] * 0.99 < ratios.min() < 0.77
    assert 1.30 < ratios.max() < RATIO[1] * 1.01
    assert abs(np.mean([mirrored for _, mirrored in drawn]) - 0.5) < 0.04
    small = [box for (box, _), area in zip(drawn, areas, strict=True) if area < 0.2]
    assert min(box.left for box in small) < 100
    assert max(box.right for box in small) > 1900


def test_an_image_that_no_crop_fits() -> None:
    """100 times as wide as high: the middle with the widest ratio allowed."""
    box, _ = training_crop(1000, 10, np.full(NUMBERS, 0.999))
    assert (box.right - box.left, box.bottom - box.top) == (13, 10)
    assert box.left == 493.5


def test_evaluation_takes_224_of_256() -> None:
    assert evaluation_crop(512, 256) == (144, 16, 368, 240)
