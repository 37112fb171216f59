"""ResNet (He et al. 2015, arXiv:1512.03385), with a block's stride in its 3 x 3 convolution, as transformers has it."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from trainwright_trainer.contract.model import ResNet

_REDUCTION = 4
"""By which the middle of a bottleneck is narrower than its ends."""
_EPSILON, _MOMENTUM = 1e-5, 0.9
"""Of batch norm; Keras's momentum is one minus torch's."""


class ConvNorm(layers.Layer):  # type: ignore[misc]
    """A convolution without bias, padded by half of its kernel on every side, then batch norm, and ReLU unless told otherwise."""

    def __init__(self, channels: int, kernel: int, stride: int = 1, *, rectified: bool = True, name: str) -> None:
        super().__init__(name=name)
        # Not padding="same": with a stride of 2 Keras then pads less on the left than on the right.
        self._pad = layers.ZeroPadding2D(kernel // 2)
        self._convolution = layers.Conv2D(
            channels, kernel, stride, use_bias=False, name="convolution",
            kernel_initializer=keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"),
        )
        self._norm = layers.BatchNormalization(momentum=_MOMENTUM, epsilon=_EPSILON, name="normalization")
        self._rectified = rectified

    def call(self, inputs: Any, training: bool) -> Any:
        outputs = self._norm(self._convolution(self._pad(inputs)), training=training)
        return keras.ops.relu(outputs) if self._rectified else outputs


class Block(layers.Layer):  # type: ignore[misc]
    """Two or three convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, bottleneck: bool, name: str) -> None:
        super().__init__(name=name)
        changes = inputs != outputs or stride != 1
        self._shortcut = ConvNorm(outputs, 1, stride, rectified=False, name="shortcut") if changes else None
        inner = outputs // _REDUCTION
        shapes = [(inner, 1, 1), (inner, 3, stride), (outputs, 1, 1)] if bottleneck else [(outputs, 3, stride), (outputs, 3, 1)]
        self._layers_in_order = [
            ConvNorm(channels, kernel, step, rectified=number < len(shapes) - 1, name=f"layer_{number}")
            for number, (channels, kernel, step) in enumerate(shapes)
        ]

    def call(self, inputs: Any, training: bool) -> Any:
        outputs = inputs
        for layer in self._layers_in_order:
            outputs = layer(outputs, training=training)
        shortcut = inputs if self._shortcut is None else self._shortcut(inputs, training=training)
        return keras.ops.relu(outputs + shortcut)


class ResNetModel(keras.Model):  # type: ignore[misc]
    """Stem, stages and a linear classifier on the mean of all places."""

    def __init__(self, model: ResNet) -> None:
        super().__init__(name="resnet")
        self._stem = ConvNorm(model.embedding_size, 7, 2, name="embedder")
        # Padded with zeros, which is as good as nothing: what comes here is not negative.
        self._pad, self._pool = layers.ZeroPadding2D(1), layers.MaxPooling2D(3, 2)
        self._blocks, inputs = [], model.embedding_size
        for stage, (width, depth) in enumerate(zip(model.hidden_sizes, model.depths, strict=True)):
            for number in range(depth):
                stride = 2 if number == 0 and stage > 0 else 1
                bottleneck = model.layer_type == "bottleneck"
                self._blocks.append(Block(inputs, width, stride, bottleneck=bottleneck, name=f"stage_{stage}_block_{number}"))
                inputs = width
        self._mean = layers.GlobalAveragePooling2D()
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")  # torch's own for a linear layer
        self._classifier = layers.Dense(model.num_labels, kernel_initializer=uniform, dtype="float32", name="classifier")

    def call(self, images: Any, training: bool = False, noise: Any = None) -> Any:
        outputs = self._pool(self._pad(self._stem(images, training=training)))
        for block in self._blocks:
            outputs = block(outputs, training=training)
        return self._classifier(self._mean(outputs))
