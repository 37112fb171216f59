"""The three things that TensorFlow compiles: a training step's micro batch, its last one with the update, an evaluation batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.tensorflow.batches import IGNORED, Batch
from trainwright_trainer.tensorflow.optimizer import Optimizer
from trainwright_trainer.tensorflow.strategy import Strategy, lost_workers

_CLIP_EPSILON = 1e-6
"""torch.nn.utils.clip_grads_with_norm_ divides by the norm and this."""


class Functions:
    """A model's arithmetic on the replicas of one worker. Build it in the strategy's scope.

    Args:
        strategy: All workers.
        model: From :func:`build_model`.
        optimizer: Over the model's trainable variables.
        clip_norm: Global gradient norm to clip at, if any.
        accumulates: Whether a step has several micro batches, whose gradients are added up.
    """

    def __init__(self, strategy: Strategy, model: Any, optimizer: Optimizer, clip_norm: float | None, accumulates: bool) -> None:
        self._strategy, self._model, self._optimizer, self._clip_norm = strategy, model, optimizer, clip_norm
        self._variables = [variable.value for variable in model.trainable_variables]
        shapes = [variable.shape for variable in self._variables] if accumulates else []
        self._sums = [tf.Variable(tf.zeros(shape), trainable=False) for shape in [*shapes, *[()] * bool(shapes)]]
        self._add = tf.function(self._run_add)
        self._update = tf.function(self._run_update)
        self._score = tf.function(self._run_score)
        self._statistics = [variable.value for variable in model.non_trainable_variables]
        self._broadcast = tf.function(self._run_broadcast)

    def trace(self, replicas: Sequence[Batch]) -> None:
        """Make the graphs, which takes long for a deep model, without running them. All workers at the same time."""
        noise, denominator, numbers = np.zeros(2, dtype=np.int32), tf.constant(1.0), np.zeros(3, dtype=np.float32)
        batch = self._spread(replicas)
        if self._sums:
            self._add.get_concrete_function(*batch, tf.constant(noise), denominator)
        self._update.get_concrete_function(*batch, tf.constant(noise), denominator, tf.constant(numbers))
        self._score.get_concrete_function(*batch)

    def accumulate(self, replicas: Sequence[Batch], noise: Array, denominator: int) -> None:
        """Add a micro batch's gradients, of its summed loss over ``denominator``. Nothing leaves the replica."""
        with lost_workers():
            self._add(*self._spread(replicas), tf.constant(noise), tf.constant(float(denominator)))

    def update(self, replicas: Sequence[Batch], noise: Array, denominator: int, numbers: Array) -> tuple[Any, Any, Any]:
        """The last micro batch of a step, then the update of all replicas.

        Gives loss and gradient norm, equal everywhere, and the seconds that the first replica was in the sum of gradients.
        """
        with lost_workers():
            loss, norm, waited = self._update(
                *self._spread(replicas), tf.constant(noise), tf.constant(float(denominator)), tf.constant(numbers)
            )
            return self._first(loss), self._first(norm), self._first(waited)

    def score(self, replicas: Sequence[Batch]) -> Array:
        """Sums over this worker's replicas, float64 ``(3,)``: loss, items predicted right, items."""
        with lost_workers():
            sums = self._strategy.experimental_local_results(self._score(*self._spread(replicas)))
            total: Array = sum(replica.numpy() for replica in sums)
        return total

    def broadcast_statistics(self) -> None:
        """Give every replica the batch-norm statistics of the first one, as DDP does before an evaluation."""
        if self._statistics:
            with lost_workers():
                self._broadcast()

    def _spread(self, replicas: Sequence[Batch]) -> tuple[Any, Any]:
        def value(column: str) -> Any:
            def of_replica(context: Any) -> Any:
                return tf.constant(getattr(replicas[context.replica_id_in_sync_group % len(replicas)], column))

            return self._strategy.experimental_distribute_values_from_function(of_replica)

        return value("images"), value("labels")

    def _first(self, value: Any) -> Any:
        return self._strategy.experimental_local_results(value)[0]

    def _run_add(self, images: Any, labels: Any, noise: Any, denominator: Any) -> None:
        def in_replica(images: Any, labels: Any) -> None:
            loss, gradients = self._gradients(images, labels, noise, denominator)
            for total, value in zip(self._sums, [*gradients, loss], strict=True):
                total.assign_add(value)

        self._strategy.run(in_replica, args=(images, labels))

    def _run_update(self, images: Any, labels: Any, noise: Any, denominator: Any, numbers: Any) -> Any:
        def in_replica(images: Any, labels: Any) -> tuple[Any, Any, Any]:
            loss, gradients = self._gradients(images, labels, noise, denominator)
            parts = [*gradients, loss]
            if self._sums:
                parts = [total + part for total, part in zip(self._sums, parts, strict=True)]
            began = _moment_of(parts)
            *gradients, loss = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, parts)
            waited = _moment_of([*gradients, loss]) - began
            norm = tf.sqrt(tf.add_n([tf.reduce_sum(gradient * gradient) for gradient in gradients]))
            if self._clip_norm is not None:
                share = tf.minimum(1.0, self._clip_norm / (norm + _CLIP_EPSILON))
                gradients = [gradient * share for gradient in gradients]
            self._optimizer.apply(gradients, numbers)
            for total in self._sums:
                total.assign(tf.zeros_like(total))
            return loss, norm, waited

        return self._strategy.run(in_replica, args=(images, labels))

    def _run_score(self, images: Any, labels: Any) -> Any:
        def in_replica(images: Any, labels: Any) -> Any:
            logits = self._model(images, training=False)
            counts = labels != IGNORED
            right = tf.logical_and(tf.argmax(logits, axis=-1) == labels, counts)
            sums = [_loss(logits, labels), tf.reduce_sum(tf.cast(right, tf.float32)), tf.reduce_sum(tf.cast(counts, tf.float32))]
            return tf.cast(tf.stack(sums), tf.float64)

        return self._strategy.run(in_replica, args=(images, labels))

    def _gradients(self, images: Any, labels: Any, noise: Any, denominator: Any) -> tuple[Any, list[Any]]:
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
        with tf.GradientTape() as tape:
            logits = self._model(images, training=True, noise=noise + tf.stack([0, replica * _DROPOUTS]))
            loss = _loss(logits, labels) / denominator
        return loss, tape.gradient(loss, self._variables)

    def _run_broadcast(self) -> None:
        def in_replica() -> None:
            context = tf.distribute.get_replica_context()
            first = tf.equal(context.replica_id_in_sync_group, 0)
            mine = [tf.where(first, variable, tf.zeros_like(variable)) for variable in self._statistics]
            for variable, value in zip(self._statistics, context.all_reduce(tf.distribute.ReduceOp.SUM, mine), strict=True):
                variable.assign(value)

        self._strategy.run(in_replica)


def _moment_of(values: Sequence[Any]) -> Any:
    """When all of these are there, in seconds.

    A GPU's numbers are there for the host once they are copied, and a copy of the last one follows all kernels before it. Not
    ``tf.timestamp``, which refuses to work where operations are deterministic.
    """
    with tf.control_dependencies(values):
        last = tf.identity(values[-1])
    return tf.numpy_function(lambda _: time.perf_counter(), [last], tf.float64)


_DROPOUTS = 2**16
"""More than one model has, so that no two replicas share a seed."""


def _loss(logits: Any, labels: Any) -> Any:
    """Cross entropy summed over the items that count, in fp32."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), tf.cast(logits, tf.float32))
    return tf.reduce_sum(tf.where(labels != IGNORED, losses, 0.0))
