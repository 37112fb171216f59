"""What the checks before training compute with where TensorFlow trains: its arithmetic on every device of the worker."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.preflight import Checks
from trainwright_trainer.rank.preflight.device import MEMORY_MEGABYTES
from trainwright_trainer.rank.preflight.on_host import HostBuffer
from trainwright_trainer.tensorflow.strategy import Strategy, StrategyGroup


def tensorflow_checks(device: str, strategy: Strategy, group: StrategyGroup) -> Checks:
    """For a worker on ``cpu`` or ``cuda``. Sums go through the host's memory, as all that the group sums does."""
    names = list(strategy.extended.worker_devices)  # of this worker; TensorFlow's list has those of all
    return Checks(
        device, partial(DeviceMatrices, names, device), partial(DeviceMemory, names, device),
        lambda: HostBuffer(group.reduce_array),
    )


class DeviceMatrices:
    """The same two matrices on several devices, which multiply them at the same time."""

    def __init__(self, names: list[str], device: str, left: Array, right: Array) -> None:
        self._names, self._pairs = names, []
        kind = tf.bfloat16 if device == "cuda" else tf.float32
        for name in names:
            with tf.device(name):
                self._pairs.append((tf.cast(tf.constant(left), kind), tf.cast(tf.constant(right), kind)))

    def product(self) -> list[Any]:
        products = []
        for name, (left, right) in zip(self._names, self._pairs, strict=True):
            with tf.device(name):
                products.append(tf.matmul(left, right))
        for product in products:
            product[0, 0].numpy()  # comes when all of it is there
        return products

    def same(self, first: list[Any], second: list[Any]) -> bool:
        """Of all devices, and between them."""
        expected = self.on_host(second)
        return all(np.array_equal(_on_host(product), expected) for product in first)

    def on_host(self, product: list[Any]) -> Array:
        return _on_host(product[0])


class DeviceMemory:
    """Numbers on several devices, each of which copies its own at the same time."""

    def __init__(self, names: list[str], device: str) -> None:
        self._names, self._sources = names, []
        for name in names:
            with tf.device(name):
                self._sources.append(tf.ones([MEMORY_MEGABYTES[device] << 18], dtype=tf.float32))

    @property
    def size(self) -> int:
        """Of one device: the slowest of them ends the copy."""
        return 4 * int(self._sources[0].shape[0])

    def copy(self) -> None:
        """Negated on the way, since TensorFlow copies nothing that it may share."""
        copies = []
        for name, source in zip(self._names, self._sources, strict=True):
            with tf.device(name):
                copies.append(tf.negative(source))
        for each in copies:
            each[0].numpy()  # comes when all of it is there


def _on_host(product: Any) -> Array:
    array: Array = tf.cast(product, tf.float32).numpy()
    return array
