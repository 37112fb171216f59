"""Vision transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) as transformers has it: norms first, a class token."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from trainwright_trainer.contract.model import ViT

_EPSILON = 1e-12
_INITIAL = 0.02
"""Standard deviation of the first weights."""


def _normal() -> Any:
    return keras.initializers.TruncatedNormal(stddev=_INITIAL)


def _norm(name: str) -> Any:
    return layers.LayerNormalization(epsilon=_EPSILON, name=name)


def _dense(width: int, name: str) -> Any:
    return layers.Dense(width, kernel_initializer=_normal(), name=name)


class Dropout:
    """Dropout without state: what is dropped follows from the noise and from which dropout of the model this is.

    So a resumed run drops what the uninterrupted one would have dropped.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def __call__(self, inputs: Any, training: bool, noise: Any, number: int) -> Any:
        if not training or not self._rate:
            return inputs
        kept = tf.random.stateless_uniform(tf.shape(inputs), noise + tf.constant([0, number])) >= self._rate
        return tf.where(kept, inputs / (1 - self._rate), tf.zeros([], inputs.dtype))


class Attention(layers.Layer):  # type: ignore[misc]
    """Multi-head self-attention with biases."""

    def __init__(self, model: ViT, name: str) -> None:
        super().__init__(name=name)
        self._heads, self._width = model.num_attention_heads, model.hidden_size
        self._query, self._key, self._value = (_dense(model.hidden_size, part) for part in ("query", "key", "value"))
        self._output = _dense(model.hidden_size, "output")
        self._drop = Dropout(model.dropout)

    def call(self, inputs: Any, training: bool, noise: Any, number: int) -> Any:
        query, key, value = (self._split(layer(inputs)) for layer in (self._query, self._key, self._value))
        scores = tf.matmul(query, key, transpose_b=True) / (self._width // self._heads) ** 0.5
        shares = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)
        mixed = tf.matmul(self._drop(shares, training, noise, number), value)
        return self._output(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), tf.shape(inputs)))

    def _split(self, inputs: Any) -> Any:
        """``(n, places, width)`` to ``(n, heads, places, width of a head)``."""
        shape = tf.shape(inputs)
        parts = tf.reshape(inputs, [shape[0], shape[1], self._heads, self._width // self._heads])
        return tf.transpose(parts, [0, 2, 1, 3])


class Block(layers.Layer):  # type: ignore[misc]
    """Attention and an MLP, each after a norm and beside a shortcut."""

    def __init__(self, model: ViT, number: int) -> None:
        super().__init__(name=f"layer_{number}")
        self._first_dropout = 1 + 3 * number
        self._norm_before, self._norm_after = _norm("layernorm_before"), _norm("layernorm_after")
        self._attention = Attention(model, "attention")
        self._up, self._down = _dense(model.intermediate_size, "intermediate"), _dense(model.hidden_size, "output")
        self._drop = Dropout(model.dropout)

    def call(self, inputs: Any, training: bool, noise: Any) -> Any:
        first = self._first_dropout
        attended = self._attention(self._norm_before(inputs), training=training, noise=noise, number=first)
        hidden = inputs + self._drop(attended, training, noise, first + 1)
        inner = keras.ops.gelu(self._up(self._norm_after(hidden)), approximate=False)
        return hidden + self._drop(self._down(inner), training, noise, first + 2)


class ViTModel(keras.Model):  # type: ignore[misc]
    """Patches, a class token and positions; blocks; a norm; a linear classifier on the class token."""

    def __init__(self, model: ViT) -> None:
        super().__init__(name="vit")
        self._model = model
        self._patches = layers.Conv2D(
            model.hidden_size, model.patch_size, model.patch_size, kernel_initializer=_normal(), name="patch_embeddings"
        )
        self._token = self.add_weight(shape=(1, 1, model.hidden_size), initializer=_normal(), name="cls_token")
        self._positions = self.add_weight(
            shape=(1, model.sequence_length, model.hidden_size), initializer=_normal(), name="position_embeddings"
        )
        self._drop = Dropout(model.dropout)
        self._blocks = [Block(model, number) for number in range(model.num_hidden_layers)]
        self._norm = _norm("layernorm")
        self._classifier = layers.Dense(model.num_labels, kernel_initializer=_normal(), dtype="float32", name="classifier")

    def call(self, images: Any, training: bool = False, noise: Any = None) -> Any:
        patches = self._patches(images)
        count, width = tf.shape(patches)[0], self._model.hidden_size
        patches = tf.reshape(patches, [count, self._model.sequence_length - 1, width])
        token = tf.cast(self._token.value, patches.dtype)
        hidden = tf.concat([tf.tile(token, [count, 1, 1]), patches], axis=1) + tf.cast(self._positions.value, patches.dtype)
        hidden = self._drop(hidden, training, noise, 0)
        for block in self._blocks:
            hidden = block(hidden, training=training, noise=noise)
        return self._classifier(self._norm(hidden)[:, 0])
