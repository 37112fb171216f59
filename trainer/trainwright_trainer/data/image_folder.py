"""Image files in one folder for each class, and where an image is cut."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from trainwright_trainer.contract.data import ImageFolder
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Array, Dataset, Unreadable
from trainwright_trainer.data.files import reading
from trainwright_trainer.data.order import PADDING, Samples, Uniforms, uniforms

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")
THREADS = 8
"""At most, that read and decode: Pillow lets go of the interpreter's lock while it works."""

_OF_SIXTEEN_BITS = ("PNG", "PPM")
"""Formats whose mode ``I`` has values up to 65,535 (Pillow, PngImagePlugin and PpmImagePlugin)."""
_MODES = {1: "L", 3: "RGB"}
# Means and deviations of ImageNet's colours, of 0 to 1, as torchvision's models state them. Grey is scaled to -1 to 1, as digits.
_NORMAL = {1: ((0.5,), (0.5,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}

AREA = (0.08, 1.0)
"""Share of the image that a training crop covers."""
RATIO = (3 / 4, 4 / 3)
"""Width by height of a training crop."""
EVALUATION_SHARE = 224 / 256
"""Of the shorter side: ImageNet's custom of resizing it to 256 pixels and cutting out 224."""

_TRIES = 10
NUMBERS = 2 * _TRIES + 3
"""Random numbers that one training sample takes."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Found:
    """Images of one split, class after class."""

    root: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    def path(self, number: int) -> Path:
        return self.root / self.classes[int(self.labels[number])] / self.names[number]


class _UndecodableError(Exception):
    """The bytes of a file are no image."""


class Images:
    """Columns ``images`` float32 ``(n, channels, image_size, image_size)`` and ``labels`` int64 ``(n,)``.

    Training cuts out a random part, scales it, and mirrors every second one; evaluation takes the middle. Colours are
    normalised by ImageNet's means and deviations; grey is scaled to -1 to 1. The orientation that a camera notes beside the
    pixels (EXIF) is not applied.

    In the place of an image that cannot be decoded stands the next one that can, in the order of ids. So batches stay full, and
    what a position holds follows from the files alone, at any number of ranks and after any resume.

    Args:
        found: The files.
        data: The run's.
        seed: The run's, for random crops; None for evaluation.
        unreadable: Hears of images that cannot be decoded.
    """

    def __init__(self, found: _Found, data: ImageFolder, seed: int | None, unreadable: Unreadable) -> None:
        self._found, self._seed, self._unreadable = found, seed, unreadable
        self._size, self._channels = data.image_size, data.channels
        self._threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), thread_name_prefix="decode")

    def __len__(self) -> int:
        return len(self._found.names)

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """Raises :class:`DataError` for a file that is gone, or for one image too many that cannot be decoded."""
        numbers: Sequence[Uniforms | None] = [None] * len(samples)
        if self._seed is not None:
            numbers = list(uniforms(self._seed, "crop", samples.positions, NUMBERS))
        found = list(self._threads.map(self._image, samples.ids.tolist(), numbers))
        pixels, ids = np.stack([image for image, _ in found]), np.array([number for _, number in found])
        mean, deviation = (np.array(values, dtype=np.float32) * 255 for values in _NORMAL[self._channels])
        images = np.ascontiguousarray(((pixels - mean) / deviation).transpose(0, 3, 1, 2))
        return {"images": images, "labels": self._found.labels[np.maximum(ids, 0)]}

    def _image(self, number: int, numbers: Uniforms | None) -> tuple[Pixels, int]:
        """Shape ``(image_size, image_size, channels)``, and the id of the image that it is."""
        if number == PADDING:
            return np.zeros((self._size, self._size, self._channels), dtype=np.uint8), number
        for candidate in chain(range(number, len(self)), range(number)):
            path = self._found.path(candidate)
            try:
                return self._decoded(path, numbers), candidate
            except _UndecodableError as error:
                self._unreadable.leave_out(path, str(error))
        raise DataError(f"{self._found.root} holds no image that can be decoded")

    def _decoded(self, path: Path, numbers: Uniforms | None) -> Pixels:
        with reading(path):
            content = path.read_bytes()
        try:
            with Image.open(io.BytesIO(content)) as image:
                scaled = self._scaled(_of_eight_bits(image).convert(_MODES[self._channels]), numbers)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise _UndecodableError(_plain(error)) from error
        return np.asarray(scaled, dtype=np.uint8).reshape(self._size, self._size, self._channels)

    def _scaled(self, image: Image.Image, numbers: Uniforms | None) -> Image.Image:
        box, mirrored = (evaluation_crop(*image.size), False) if numbers is None else training_crop(*image.size, numbers)
        # Pillow averages over all pixels that fall into one (antialiasing), at any scale.
        scaled = image.resize((self._size, self._size), Image.Resampling.BILINEAR, box=box)
        return scaled.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else scaled


def load(data: ImageFolder, seed: int, skip_unreadable: int = 0) -> Dataset:
    """List both folders; classes are numbered in the order of their folders' names. No image is read.

    Args:
        data: The run's.
        seed: The run's, for random crops.
        skip_unreadable: Images of both folders that this rank may leave out because they cannot be decoded.

    Raises:
        DataError: A folder is missing or empty, or the classes are not those that the run states.
    """
    train = _scan(data, data.train_folder)
    held_out = _scan(data, data.evaluation_folder)
    if train.classes != held_out.classes:
        odd = sorted(set(train.classes) ^ set(held_out.classes))[0]
        only = train if odd in train.classes else held_out
        raise DataError(f"class {odd} is in {only.root} and not in the other folder; both need the same classes")
    if data.samples is not None and data.samples != len(train.names):
        raise DataError(f"{train.root} holds {len(train.names):,} images, and data.samples is {data.samples:,}")
    digest = hashlib.sha256(f"image-folder v1:{data.image_size}:{data.channels}:".encode())
    for split in (train, held_out):
        digest.update(repr(split.classes).encode())
        digest.update("\0".join(split.names).encode(errors="surrogateescape"))
        digest.update(split.labels.astype("<i8").tobytes() + split.sizes.astype("<i8").tobytes())
    unreadable = Unreadable(skip_unreadable)
    splits = Images(train, data, seed, unreadable), Images(held_out, data, None, unreadable)
    return Dataset(*splits, digest.hexdigest(), unreadable=unreadable)


def _scan(data: ImageFolder, name: str) -> _Found:
    root = Path(data.path, name)
    with reading(root):
        classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    if len(classes) != data.classes:
        raise DataError(f"{root} has {len(classes):,} folders of classes, and data.classes is {data.classes:,}")
    # A listing of a network volume is a wait for its server, so several are under way.
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(_images, [root / folder for folder in classes]))
    names = tuple(name for images in found for name, _ in images)
    sizes = np.array([size for images in found for _, size in images], dtype=np.int64)
    labels = np.repeat(np.arange(len(classes)), [len(images) for images in found]).astype(np.int64)
    return _Found(root, tuple(classes), names, labels, sizes)


def _images(folder: Path) -> list[tuple[str, int]]:
    """Names and sizes in bytes of the images in a folder, in name order."""
    with reading(folder):
        found = sorted(
            (entry.name, entry.stat().st_size) for entry in os.scandir(folder)
            if entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")
        )
    if not found:
        raise DataError(f"{folder} has no image ({', '.join(SUFFIXES)})")
    return found


def _of_eight_bits(image: Image.Image) -> Image.Image:
    """Pillow's ``convert`` cuts greys of more bits off at 255, which makes most images white.

    Raises ``ValueError`` for pixels whose scale nobody states: integers of 32 bits, and floats.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _OF_SIXTEEN_BITS):
        values = np.asarray(image).astype(np.int64)
        return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    if image.mode in ("I", "F"):
        kind = "integers of 32 bits" if image.mode == "I" else "floats"
        raise ValueError(f"its pixels are {kind}, and what is white among them is not said; convert it to 8 or 16 bits")
    return image


def _plain(error: BaseException) -> str:
    """Pillow's message; for bytes that are no image at all it names a buffer of ours, which helps nobody."""
    return "its format is unknown" if isinstance(error, UnidentifiedImageError) else str(error)


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
