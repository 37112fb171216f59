"""Image folders."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from structlog.testing import capture_logs

from trainwright_trainer.contract.data import ImageFolder
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.training import WorldBatch
from trainwright_trainer.data import image_folder
from trainwright_trainer.data.batch import share_step
from trainwright_trainer.data.dataset import Array, Dataset
from trainwright_trainer.data.image_folder import AREA, NUMBERS, RATIO, evaluation_crop, training_crop
from trainwright_trainer.data.order import PADDING, DataOrder, Samples, uniforms


def folder(path: Path, **keys: Any) -> ImageFolder:
    return ImageFolder.model_validate(
        {"source": "image-folder", "path": str(path), "image_size": 8, "channels": 1, "classes": 10, **keys}
    )


def samples(*ids: int) -> Samples:
    return Samples(np.array(ids), np.array(ids))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 handwritten digits as PNG files, every seventh of them for evaluation."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    root, bunch = tmp_path_factory.mktemp("digits"), load_digits()
    for number in range(300):
        part = root / ("val" if number % 7 == 0 else "train") / f"digit-{bunch.target[number]}"
        part.mkdir(parents=True, exist_ok=True)
        pixels = (bunch.images[number] * 15.9375).astype(np.uint8)
        Image.fromarray(pixels).resize((32, 32), Image.Resampling.NEAREST).save(part / f"{number:03}.png")
    (root / "train" / "digit-0" / ".hidden.png").write_text("no image")
    (root / "train" / "digit-0" / "notes.txt").write_text("no image")
    (root / "train" / "readme").write_text("no class")
    return root


@pytest.fixture
def flower(tmp_path: Path) -> Path:
    """A photograph in two classes that differ: upright, and upside down."""
    from sklearn.datasets import load_sample_image

    photograph = Image.fromarray(load_sample_image("flower.jpg"))
    for part in ("train", "val"):
        for name, image in (("down", photograph.rotate(180)), ("up", photograph)):
            (tmp_path / part / name).mkdir(parents=True)
            image.save(tmp_path / part / name / "flower.JPEG", quality=95)
    return tmp_path


def read(dataset: Dataset, *ids: int) -> tuple[Array, Array]:
    columns = dataset.train.read(samples(*ids))
    return columns["images"], columns["labels"]


def test_classes_in_name_order(digits: Path) -> None:
    data = image_folder.load(folder(digits), seed=0)
    assert (len(data.train), len(data.held_out)) == (257, 43)
    columns = data.train.read(samples(*range(257)))
    assert columns["images"].shape == (257, 1, 8, 8)
    assert columns["images"].dtype == np.float32
    assert columns["images"].flags.c_contiguous
    assert -1 <= columns["images"].min() < -0.9 < 0.9 < columns["images"].max() <= 1
    names = sorted((digits / "train").glob("*/[!.]*.png"))
    assert columns["labels"].tolist() == [int(path.parent.name[-1]) for path in names]


def test_evaluation_is_the_middle_and_fixed(flower: Path) -> None:
    """The crop in one step is that of the custom's two: the shorter side to 256/224, then the middle."""
    data = image_folder.load(folder(flower, image_size=112, channels=3, classes=2), seed=0)
    found = data.held_out.read(samples(1, 1))["images"]
    assert np.array_equal(found[0], found[1])
    photograph = Image.open(flower / "val" / "up" / "flower.JPEG")
    width, height = photograph.size
    small = photograph.resize((round(width * 128 / height), 128), Image.Resampling.BILINEAR)
    left = (small.width - 112) / 2
    middle = np.asarray(small.crop((round(left), 8, round(left) + 112, 120)), dtype=np.float32) / 255
    normal = (middle - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert np.abs(found[0] - normal.transpose(2, 0, 1)).mean() < 0.1
    other = data.held_out.read(samples(0))["images"][0]
    assert np.abs(found[0] - other[:, ::-1, ::-1]).mean() < 0.1
    assert np.abs(found[0] - other).mean() > 0.5


def test_training_depends_on_seed_and_position_alone(flower: Path) -> None:
    keys = {"image_size": 16, "channels": 3, "classes": 2}
    data, other = (image_folder.load(folder(flower, **keys), seed) for seed in (1, 2))
    twice = data.train.read(Samples(np.array([1, 1]), np.array([5, 6])))["images"]
    assert not np.array_equal(twice[0], twice[1])
    again = data.train.read(Samples(np.array([0, 1]), np.array([6, 6])))["images"]
    assert np.array_equal(again[1], twice[1])
    elsewhere = other.train.read(Samples(np.array([1]), np.array([5])))["images"]
    assert not np.array_equal(elsewhere[0], twice[0])
    assert data.fingerprint == other.fingerprint


def test_half_of_the_training_images_are_mirrored(tmp_path: Path) -> None:
    """Dark left and light right: what is lighter on the left was mirrored."""
    ramp = Image.fromarray(np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1)))
    for part in ("train", "val"):
        (tmp_path / part / "ramp").mkdir(parents=True)
        ramp.save(tmp_path / part / "ramp" / "a.png")
    data = image_folder.load(folder(tmp_path, classes=1), seed=3)
    images = data.train.read(Samples(np.zeros(400, dtype=np.int64), np.arange(400)))["images"]
    mirrored = images[:, 0, :, 0].mean(axis=1) > images[:, 0, :, -1].mean(axis=1)
    assert 150 < np.count_nonzero(mirrored) < 250


@settings(deadline=None, max_examples=30)
@given(start=st.integers(0, 3000), world=st.sampled_from([1, 2, 4]), micro=st.sampled_from([1, 2, 4]))
def test_world_size_and_micro_batch_change_no_image(digits: Path, start: int, world: int, micro: int) -> None:
    data = image_folder.load(folder(digits), seed=1)
    batch = DataOrder(5, len(data.train), data.fingerprint).batch(start, 16)
    whole = data.train.read(batch)
    shares = share_step(WorldBatch(micro=micro, accumulation=16 // world // micro), world)
    parts = [data.train.read(part) for rank in range(world) for part in shares.slices(batch, rank)]
    for name in ("images", "labels"):
        assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name])


def test_padding_reads_no_file(digits: Path) -> None:
    columns = image_folder.load(folder(digits), seed=0).held_out.read(samples(0, PADDING))
    assert columns["images"].shape == (2, 1, 8, 8)
    assert len(set(columns["images"][1].ravel())) == 1


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3])
def test_colours_become_those_of_the_run(tmp_path: Path, mode: str, channels: int) -> None:
    for part in ("train", "val"):
        (tmp_path / part / "a").mkdir(parents=True)
        Image.new(mode, (20, 30)).save(tmp_path / part / "a" / "image.tif")
    images, _ = read(image_folder.load(folder(tmp_path, channels=channels, classes=1), seed=0), 0)
    assert images.shape == (1, channels, 8, 8)


def _truncated() -> bytes:
    content = io.BytesIO()
    Image.effect_noise((200, 200), 50).save(content, "JPEG")
    return content.getvalue()[:2000]


def _broken_png() -> bytes:
    content = io.BytesIO()
    Image.effect_noise((200, 200), 50).save(content, "PNG")
    return content.getvalue()[:1000] + b"\0" * 1000


CORRUPT = {
    "truncated": (_truncated(), "image file is truncated"), "broken": (_broken_png(), ""),
    "empty": (b"", "its format is unknown"), "text": (b"<html>404", "its format is unknown"),
}


@pytest.mark.parametrize(("content", "reason"), CORRUPT.values(), ids=CORRUPT)
def test_an_image_that_is_none_is_named(flower: Path, content: bytes, reason: str) -> None:
    data = image_folder.load(folder(flower, channels=3, classes=2), seed=0)
    (flower / "train" / "up" / "flower.JPEG").write_bytes(content)
    with pytest.raises(DataError, match=rf"train/up/flower\.JPEG is not a readable image: {reason}"):
        read(data, 0, 1)


@pytest.mark.parametrize(("content", "reason"), CORRUPT.values(), ids=CORRUPT)
def test_the_next_image_stands_in_for_one_that_is_none(flower: Path, content: bytes, reason: str) -> None:
    data = image_folder.load(folder(flower, channels=3, classes=2), 0, skip_unreadable=1)
    whole, labels = read(data, 0, 1)
    (flower / "train" / "up" / "flower.JPEG").write_bytes(content)
    with capture_logs() as lines:
        for _ in range(2):
            columns = data.train.read(Samples(np.array([1, 0]), np.array([0, 0])))
    assert np.array_equal(columns["images"], np.stack([whole[0]] * 2)), "what stands there follows from the position"
    assert columns["labels"].tolist() == [labels[0]] * 2, "with a label of its own"
    [line] = lines
    assert (line["event"], line["left_out"], line["allowed"]) == ("image_left_out", 1, 1)
    assert data.unreadable is not None
    assert data.unreadable.count == 1
    (flower / "val" / "up" / "flower.JPEG").write_bytes(content)
    with pytest.raises(DataError, match=rf"val/up/flower\.JPEG is not a readable image: {reason}.*one more than skip_unreadable"):
        data.held_out.read(samples(1))


def test_a_folder_without_any_image_that_can_be_decoded(flower: Path) -> None:
    data = image_folder.load(folder(flower, channels=3, classes=2), 0, skip_unreadable=9)
    for image in (flower / "train").glob("*/*"):
        image.write_bytes(b"")
    with pytest.raises(DataError, match="train holds no image that can be decoded"):
        read(data, 1)


def test_an_image_that_is_gone_is_named(flower: Path) -> None:
    data = image_folder.load(folder(flower, channels=3, classes=2), seed=0)
    (flower / "train" / "up" / "flower.JPEG").unlink()
    with pytest.raises(DataError, match=r"train/up/flower\.JPEG cannot be read: No such file"):
        read(data, 1)


def test_names_and_sizes_make_the_fingerprint(flower: Path) -> None:
    data = folder(flower, channels=3, classes=2)
    before = image_folder.load(data, seed=0).fingerprint
    assert image_folder.load(data, seed=1).fingerprint == before
    for changed in ({"image_size": 9}, {"channels": 1}):
        assert image_folder.load(folder(flower, **{"channels": 3, "classes": 2, **changed}), seed=0).fingerprint != before
    image = flower / "val" / "up" / "flower.JPEG"
    image.write_bytes(image.read_bytes() + b"\0")
    longer = image_folder.load(data, seed=0).fingerprint
    image.rename(image.with_name("other.jpg"))
    assert len({before, longer, image_folder.load(data, seed=0).fingerprint}) == 3


def test_folders_that_are_not_what_the_run_says(flower: Path, tmp_path: Path) -> None:
    keys = {"channels": 3, "classes": 2}
    with pytest.raises(DataError, match=r"train has 2 folders of classes, and data\.classes is 10"):
        image_folder.load(folder(flower), seed=0)
    with pytest.raises(DataError, match=r"train holds 2 images, and data\.samples is 3"):
        image_folder.load(folder(flower, samples=3, **keys), seed=0)
    with pytest.raises(DataError, match="validation cannot be read: No such file"):
        image_folder.load(folder(flower, evaluation_folder="validation", **keys), seed=0)
    (flower / "val" / "up").rename(flower / "val" / "upright")
    with pytest.raises(DataError, match=r"class up is in .*/train and not in the other folder"):
        image_folder.load(folder(flower, **keys), seed=0)
    (flower / "train" / "up" / "flower.JPEG").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="train/up has no image"):
        image_folder.load(folder(flower, **keys), seed=0)


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


GREYS = np.tile(np.arange(0, 256, 8, dtype=np.uint16), (32, 1))


def of_greys(path: Path, name: str, pixels: Any, mode: str | None = None, **keys: Any) -> Any:
    image = Image.new(mode, (32, 32)) if mode == "LAB" else Image.fromarray(pixels)
    for part in ("train", "val"):
        (path / part / "only").mkdir(parents=True)
        (image if mode in (None, "LAB") else image.convert(mode)).save(path / part / "only" / name)
    return image_folder.load(folder(path, classes=1, **keys), seed=0).held_out.read(samples(0))["images"]


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
@pytest.mark.parametrize("channels", [1, 3])
def test_greys_of_16_bits_have_their_own_scale(tmp_path: Path, name: str, channels: int) -> None:
    of_8 = of_greys(tmp_path / "8", name, GREYS.astype(np.uint8), channels=channels)
    of_16 = of_greys(tmp_path / "16", name, GREYS * 257, channels=channels)
    assert of_8.max() > of_8.mean() > of_8.min()
    np.testing.assert_allclose(of_16, of_8, atol=1e-6)


def test_big_endian_greys(tmp_path: Path) -> None:
    of_8 = of_greys(tmp_path / "8", "a.tif", GREYS.astype(np.uint8))
    np.testing.assert_allclose(of_greys(tmp_path / "16", "a.tif", (GREYS * 257).astype(">u2")), of_8, atol=1e-6)


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F", "LAB"])
def test_every_mode_is_converted_or_refused(tmp_path: Path, mode: str) -> None:
    """Black and white, whose values differ from mode to mode."""
    pixels = np.where(GREYS > 127, 255, 0).astype(np.uint8)
    expected = of_greys(tmp_path / "L", "a.png", pixels)
    if mode in ("I", "F", "LAB"):
        with pytest.raises(DataError, match="is not a readable image"):
            of_greys(tmp_path / mode, "a.tif", pixels, mode)
    else:
        name = "a.tif" if mode in ("CMYK", "YCbCr") else "a.png"
        np.testing.assert_allclose(of_greys(tmp_path / mode, name, pixels, mode), expected, atol=0.03)
