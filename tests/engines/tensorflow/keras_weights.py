"""Models of Keras with weights that follow from their names, and what the same models of transformers make of the same images.

Needs no TensorFlow: what an export gives is held against it as well.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from trainwright_trainer.contract.model import Model, ResNet, ViT
from trainwright_trainer.tensorflow.names import torch_axes, torch_name

MODELS: dict[str, Model] = {
    "vit": ViT(
        architecture="vit", image_size=8, patch_size=4, num_channels=1, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_labels=10,
    ),
    "bottleneck": ResNet(
        architecture="resnet", num_channels=1, image_size=16, embedding_size=8, hidden_sizes=(16, 32), depths=(2, 1),
        layer_type="bottleneck", num_labels=10,
    ),
    "basic": ResNet(
        architecture="resnet", num_channels=3, image_size=15, embedding_size=8, hidden_sizes=(8, 16), depths=(1, 2),
        layer_type="basic", num_labels=10,
    ),
}
LOGITS = {
    "vit": [
        [-3.2251, -4.3102, 2.3807, -1.2359, -1.4569, 1.6621, 1.7167, -0.7164, 2.3026, 2.7744],
        [-1.8721, -1.7672, -1.4195, -1.2898, 1.3103, 1.5402, -0.5166, 0.2971, 1.5778, 2.1256],
    ],
    "bottleneck": [
        [357.2106, 42.1754, -176.7001, 280.2668, -250.3968, 93.1732, -193.3539, 53.0837, -295.9513, -265.8293],
        [334.3052, 4.9854, -172.402, 263.652, -252.9258, 73.5306, -204.344, 51.1777, -263.5332, -247.1549],
    ],
    "basic": [
        [-10.6138, 16.249, 2.8453, -16.6151, 14.3382, -6.0824, -12.6722, -3.144, -3.1854, -11.3543],
        [-5.4441, 13.8067, 3.5954, -9.6102, 11.277, -9.2539, -8.8305, -2.7726, -1.4514, -7.7617],
    ],
}
"""Of ``ViTForImageClassification`` and ``ResNetForImageClassification`` (transformers 5.23, torch 2.13), with the weights and
images below."""


def values(name: str, shape: tuple[int, ...]) -> Any:
    """Numbers that follow from a tensor's name, in the shape that torch has it in."""
    drawn = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode()))).random(shape).astype(np.float32)
    if len(shape) > 1:
        return (drawn - 0.5) * 6 / np.sqrt(np.prod(shape[1:], dtype=np.float32))
    return drawn + 0.5 if name.endswith(("running_var", "weight")) else drawn - 0.5


def of_keras(path: str, shape: tuple[int, ...]) -> Any:
    """The value of a weight in the model of Keras."""
    axes = torch_axes(path, len(shape))
    drawn = values(torch_name(path), tuple(shape[axis] for axis in axes))
    return np.transpose(drawn, np.argsort(axes))


def images_of(model: Any) -> Any:
    """float32 ``(2, channels, height, width)``."""
    size = model.image_size
    return values("images", (2, model.num_channels, size, size)) * size


SHAPES = {
    name: {path: tuple(shape) for path, shape in shapes.items()}
    for name, shapes in json.loads(Path(__file__).with_name("keras_weights.json").read_text()).items()
}
"""Of the weights of each model of Keras, by path."""
