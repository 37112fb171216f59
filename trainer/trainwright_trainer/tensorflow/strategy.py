"""The strategy of a run, the group of its workers, and what TensorFlow's errors mean.

The checks before training compute with TensorFlow's own arithmetic, on every device of the worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.contract.spec import RunSpec, World
from trainwright_trainer.rank.group import LostWorkersError
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight import Checks
from trainwright_trainer.rank.preflight.device import MEMORY_MEGABYTES, HostBuffer

Strategy: TypeAlias = Any
"""``tf.distribute.MultiWorkerMirroredStrategy``."""

MIN_COLLECTIVE_SECONDS = 300.0
"""Backstop for a worker that is there and silent; a connection that ends is noticed at once."""


def prepare_devices(world: World) -> None:
    """Have as many devices as ``replicas_per_process``, before TensorFlow looks at them.

    On CPUs they are parts of one: what a node with several GPUs does can be rehearsed without them. Raises
    :class:`TopologyMismatchError` where this pod has another number of GPUs.
    """
    found, wanted = len(tf.config.list_physical_devices("GPU")), world.replicas_per_process or 1
    if world.device == "cuda" and found != wanted:
        raise TopologyMismatchError(
            f"world.replicas_per_process is {wanted}, and TensorFlow finds {found} GPUs in this pod; it uses all that it finds"
        )
    if world.device == "cpu" and wanted > 1:
        [processor] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * wanted)


def make_strategy(spec: RunSpec) -> Strategy:
    """The strategy, made on all workers at the same time."""
    cpu = spec.world.device == "cpu"
    if cpu:
        # On CPUs a resumed run has the bits of an uninterrupted one. GPUs stay fast.
        tf.config.experimental.enable_op_determinism()
    implementations = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementations.RING if cpu else implementations.NCCL,
        timeout_seconds=max(MIN_COLLECTIVE_SECONDS, 4 * spec.lifecycle.save_seconds),
    )
    replicas = spec.world.replicas_per_process or 1
    with lost_workers():
        if cpu and replicas > 1:
            return _on_processors(replicas, options)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _on_processors(replicas: int, options: Any) -> Strategy:
    """A strategy with several replicas on the CPU of a worker, for which TensorFlow counts one."""
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

    class Extended(CollectiveAllReduceExtended):  # type: ignore[misc]
        def _initialize_local_devices(self, cluster_resolver: Any, worker_device: str) -> tuple[tuple[str, ...], str]:
            return tuple(f"{worker_device}/device:CPU:{number}" for number in range(replicas)), "CPU"

    class Several(tf.distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
        def __init__(self) -> None:
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            tf.distribute.Strategy.__init__(self, Extended(self, cluster_resolver=resolver, communication_options=options))

    return Several()


_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)


@contextmanager
def lost_workers() -> Iterator[None]:
    """Turn what TensorFlow says of a broken collective into :class:`LostWorkersError`, and of memory into ``MemoryError``."""
    try:
        yield
    except _GONE as error:
        raise LostWorkersError(f"another worker is gone: {_reason(error)}") from error
    except tf.errors.ResourceExhaustedError as error:
        raise MemoryError(f"out of memory: {_reason(error)}") from error
    except tf.errors.InternalError as error:
        if "ollective" not in str(error) and "NCCL" not in str(error):
            raise
        raise LostWorkersError(f"another worker is gone: {_reason(error)}") from error


def _reason(error: Any) -> str:
    """The line that says most: ``Graph execution error:`` comes first, and the traces in between are TensorFlow's own."""
    lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("Collective ops is aborted", "OOM", "Out of memory"))]
    return (telling or lines or [type(error).__name__])[0][:500]


T = TypeVar("T")

_MOST_WORDS = 2**21
"""Of 8 bytes in one collective: 16 MiB."""


class StrategyGroup:
    """All workers of a strategy. Numbers are summed by workers, whatever number of replicas each has."""

    def __init__(self, strategy: Strategy, place: Place) -> None:
        self._strategy, self._place = strategy, place
        self._first_of_worker = place.rank * strategy.num_replicas_in_sync // place.world_size
        self._sum = tf.function(self._sum_of)

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        return [float(value) for value in self.reduce_array(np.array(values, dtype=np.float64))]

    def reduce_array(self, values: Array) -> Array:
        if self._place.world_size == 1:
            return values

        def of_replica(context: Any) -> Any:
            first = context.replica_id_in_sync_group == self._first_of_worker
            return tf.constant(values if first else np.zeros_like(values))

        with lost_workers():
            replicas = self._sum(self._strategy.experimental_distribute_values_from_function(of_replica))
            reduced: Array = self._strategy.experimental_local_results(replicas)[0].numpy()
        return reduced

    def broadcast(self, value: T) -> T:
        return self._sent_by(0, value)

    def gather(self, value: T) -> list[T]:
        everyones = [self._sent_by(rank, value) for rank in range(self._place.world_size)]
        return everyones if self._place.leads else []

    def _sent_by(self, rank: int, value: T) -> T:
        """One rank's value on every rank, pickled on the way: workers trust each other, as they run one image.

        Bytes go as integers of which all but that rank's are zero, so that a sum changes none; of 8 bytes, since GPUs keep
        smaller ones on the host.
        """
        if self._place.world_size == 1:
            return value
        data = pickle.dumps(value) if self._place.rank == rank else b""
        [length] = self.reduce_sums([len(data)])
        words = np.zeros(_padded(int(length)), dtype=np.int64)
        words.view(np.uint8)[:len(data)] = np.frombuffer(data, dtype=np.uint8)
        parts = [self.reduce_array(words[start:start + _MOST_WORDS]) for start in range(0, len(words), _MOST_WORDS)]
        return cast("T", pickle.loads(np.concatenate(parts).tobytes()))  # noqa: S301

    def close(self) -> None:
        """Wait for the others: a rank that is still in a collective would take an early exit for a failure."""
        self.reduce_sums([0.0])

    def _sum_of(self, values: Any) -> Any:
        def in_replica(mine: Any) -> Any:
            # The identity gives it a device, which the strategy looks for and an argument of a function has not.
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(mine))

        return self._strategy.run(in_replica, args=(values,))


def _padded(length: int) -> int:
    """Words for so many bytes, at a few sizes only: each size is a function that TensorFlow has to trace."""
    words = 16
    while words * 8 < length and words < _MOST_WORDS:
        words *= 4
    return -(-max(length, 1) // (words * 8)) * words


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
