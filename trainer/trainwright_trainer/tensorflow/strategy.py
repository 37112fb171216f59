"""The strategy of a run, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import tensorflow as tf

from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.contract.spec import RunSpec, World
from trainwright_trainer.rank.group import LostWorkersError

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
