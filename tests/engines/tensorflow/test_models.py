"""The models of Keras are those of transformers: the same layers, the same numbers of parameters, the same logits."""

from __future__ import annotations

import os
from typing import Any

os.environ.update({"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import numpy as np
import pytest
import tensorflow as tf
from tests.engines.tensorflow.keras_weights import LOGITS, MODELS, SHAPES, images_of, of_keras

from trainwright_trainer.contract.model import ResNet
from trainwright_trainer.tensorflow.model import build_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str) -> None:
    described: Any = MODELS[name]
    model = build_model(described, "fp32", seed=0)
    for variable in model.variables:
        variable.assign(of_keras(variable.path, tuple(variable.shape)))
    assert {variable.path: tuple(variable.shape) for variable in model.variables} == SHAPES[name]
    images = np.moveaxis(images_of(described), 1, -1)
    np.testing.assert_allclose(model(images, training=False), LOGITS[name], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("model", [*MODELS.values(), ResNet(architecture="resnet", num_labels=1000)], ids=[*MODELS, "resnet-50"])
def test_parameters_are_those_that_the_contract_counts(model: Any) -> None:
    built = build_model(model, "bf16", seed=0)
    assert sum(int(np.prod(variable.shape)) for variable in built.trainable_variables) == model.parameters
    assert {str(variable.dtype) for variable in built.variables} == {"float32"}


def test_dropout_follows_from_the_noise() -> None:
    model = build_model(MODELS["vit"].model_copy(update={"dropout": 0.5}), "fp32", seed=0)
    images = tf.ones([2, 8, 8, 1])
    first, again, other = (model(images, training=True, noise=tf.constant([seed, 0])) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    np.testing.assert_array_equal(model(images, training=False), model(images, training=False))


def test_the_seed_decides_the_first_weights() -> None:
    first, again, other = (build_model(MODELS["vit"], "fp32", seed) for seed in (1, 1, 2**40))
    for path in ("vit/patch_embeddings/kernel", "vit/classifier/kernel"):
        kernels = [next(v.numpy() for v in model.variables if v.path == path) for model in (first, again, other)]
        np.testing.assert_array_equal(kernels[0], kernels[1])
        assert np.abs(kernels[0] - kernels[2]).max() > 0
