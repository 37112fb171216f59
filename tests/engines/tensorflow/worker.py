"""A worker with a training loop of its own around ``strategy.run``; the cluster is in TF_CONFIG. Says what it has.

``worker.py CHECKPOINT_FOLDER``: saves there, from all workers as the strategy demands, and reads it back.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

BATCH = 64
STEPS = 30


def main() -> None:
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    experimental = tf.distribute.experimental
    ring = experimental.CommunicationOptions(implementation=experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    with strategy.scope():
        tf.keras.utils.set_random_seed(0)
        model = tf.keras.Sequential([tf.keras.layers.Input((64,)), tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(10)])
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)

    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, digits.target.astype(np.int32))).repeat().batch(BATCH, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = iter(strategy.experimental_distribute_dataset(data.with_options(options)))

    @tf.function  # type: ignore[untyped-decorator]
    def step(batch: object) -> tf.Tensor:
        def on_replica(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                losses = tf.keras.losses.sparse_categorical_crossentropy(labels, model(inputs, training=True), from_logits=True)
                loss = tf.reduce_sum(losses) / BATCH
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, args=batch), axis=None)

    losses = [float(step(next(batches))) for _ in range(STEPS)]
    trained = weights_of(model)

    folder = sys.argv[1] if index == 0 else f"{sys.argv[1]}.worker-{index}"  # all write, and what the others wrote is thrown away
    checkpoint.write(os.path.join(folder, "weights"))
    for variable in model.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    checkpoint.read(os.path.join(folder, "weights")).assert_existing_objects_matched()
    restored = weights_of(model)
    if index:
        shutil.rmtree(folder)
    said = {"index": index, "replicas": strategy.num_replicas_in_sync, "losses": losses, "weights": trained, "restored": restored}
    Path(f"said-{index}.json").write_text(json.dumps(said), encoding="utf-8")


def weights_of(model: tf.keras.Model) -> list[float]:
    """The sum of each weight, exact enough to tell two models apart."""
    return [float(np.abs(variable.numpy()).astype(np.float64).sum()) for variable in model.trainable_variables]


if __name__ == "__main__":
    main()
