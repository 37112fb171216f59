"""Names and shapes of Keras's weights, and those of the same weights in ``transformers``. Needs neither TensorFlow nor torch."""

from __future__ import annotations

import re

_RULES = [
    (r"^vit/(cls_token|position_embeddings)$", r"vit.embeddings.\1"),
    (r"^vit/patch_embeddings/", "vit.embeddings.patch_embeddings.projection/"),
    (r"^vit/layer_(\d+)/attention/(.)\w+/", r"vit.layers.\1.attention.\2_proj/"),
    (r"^vit/layer_(\d+)/intermediate/", r"vit.layers.\1.mlp.fc1/"),
    (r"^vit/layer_(\d+)/output/", r"vit.layers.\1.mlp.fc2/"),
    (r"^vit/layer_(\d+)/", r"vit.layers.\1."),
    (r"^vit/layernorm/", "vit.layernorm/"),
    (r"^vit/classifier/", "classifier/"),
    (r"^resnet/classifier/", "classifier.1/"),
    (r"^resnet/embedder/", "resnet.embedder.embedder."),
    (r"^resnet/stage_(\d+)_block_(\d+)/shortcut/", r"resnet.encoder.stages.\1.layers.\2.shortcut."),
    (r"^resnet/stage_(\d+)_block_(\d+)/layer_(\d+)/", r"resnet.encoder.stages.\1.layers.\2.layer.\3."),
    (r"/(kernel|gamma)$", ".weight"), (r"/(bias|beta)$", ".bias"), (r"/moving_mean$", ".running_mean"),
    (r"/moving_variance$", ".running_var"),
]
KERNEL = "/kernel"
CONVOLUTION = 4
"""Dimensions of its kernel."""


def torch_name(path: str) -> str:
    """From a path in the model of Keras to the name in the model of ``transformers``."""
    for pattern, replacement in _RULES:
        path = re.sub(pattern, replacement, path)
    return path


def torch_axes(path: str, dimensions: int) -> tuple[int, ...]:
    """The order of a weight's axes there: a convolution's outputs and inputs come first, and a linear layer's outputs."""
    if path.endswith(KERNEL) and dimensions == CONVOLUTION:
        return (3, 2, 0, 1)
    return tuple(reversed(range(dimensions))) if path.endswith(KERNEL) else tuple(range(dimensions))
