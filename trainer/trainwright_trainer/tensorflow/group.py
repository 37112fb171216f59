"""The workers together: small things on the host, sent through the strategy's own collectives."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.rank.place import Place
from trainwright_trainer.tensorflow.strategy import Strategy, lost_workers

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
        """Rank 0's value, which was pickled: workers trust each other, as they run one image.

        Bytes go as integers of which all but rank 0's are zero, so that a sum changes none; of 8 bytes, since GPUs keep smaller
        ones on the host.
        """
        if self._place.world_size == 1:
            return value
        data = pickle.dumps(value) if self._place.leads else b""
        [length] = self.reduce_sums([len(data)])
        words = np.zeros(_padded(int(length)), dtype=np.int64)
        words.view(np.uint8)[:len(data)] = np.frombuffer(data, dtype=np.uint8)
        parts = [self.reduce_array(words[start:start + _MOST_WORDS]) for start in range(0, len(words), _MOST_WORDS)]
        return cast("T", pickle.loads(np.concatenate(parts).tobytes()))  # noqa: S301

    def close(self) -> None:
        """Wait for the others: whoever is still in a collective would take an early exit for a failure."""
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
