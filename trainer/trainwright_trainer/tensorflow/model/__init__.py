"""The contract's image models in Keras 3: the same layers, shapes and numbers of parameters as the torch engines train.

Images are ``(n, height, width, channels)`` here, as Keras has them on CPUs.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Model, ResNet, ViT
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.tensorflow.model.resnet import ResNetModel
from trainwright_trainer.tensorflow.model.vit import ViTModel


def build_model(model: Model, precision: Precision, seed: int) -> Any:
    """A built model with fp32 variables, initialised from the seed. Call it in the strategy's scope, on every worker alike.

    It is called as ``model(images, training=..., noise=...)``, where ``noise`` is an int32 ``(2,)`` seed for dropout, and gives
    logits in fp32.
    """
    keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bf16" else "float32")
    keras.utils.set_random_seed(seed % 2**32)
    match model:
        case ResNet():
            built, size, channels = ResNetModel(model), model.image_size, model.num_channels
        case ViT():
            built, size, channels = ViTModel(model), model.image_size, model.num_channels
        case _:
            raise InvalidRunError(f"engine tensorflow cannot build architecture {model.architecture}; use resnet or vit")
    built(tf.zeros([1, size, size, channels]), training=False, noise=tf.zeros([2], tf.int32))
    return built
