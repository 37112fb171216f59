"""AdamW and SGD against their textbook form, written down in numpy with double precision."""

from __future__ import annotations

import os
from typing import Any

os.environ.update({"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import numpy as np
import pytest
import tensorflow as tf

from trainwright_trainer.contract.training import SGD, AdamW
from trainwright_trainer.tensorflow.optimizer import build_optimizer

pytestmark = pytest.mark.slow

RATE, STEPS = 0.1, 5
SHAPES = {"matrix": (3, 4), "vector": (4,)}


def adamw(settings: AdamW, value: Any, gradients: list[Any], decay: float) -> Any:
    first, second = np.zeros_like(value), np.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        first = settings.betas[0] * first + (1 - settings.betas[0]) * gradient
        second = settings.betas[1] * second + (1 - settings.betas[1]) * gradient**2
        corrected = first / (1 - settings.betas[0] ** step), second / (1 - settings.betas[1] ** step)
        value = value - RATE * decay * value - RATE * corrected[0] / (np.sqrt(corrected[1]) + settings.eps)
    return value


def sgd(settings: SGD, value: Any, gradients: list[Any], decay: float) -> Any:
    buffer = np.zeros_like(value)
    for gradient in gradients:
        direction = gradient + decay * value
        buffer = settings.momentum * buffer + direction
        value = value - RATE * (direction + settings.momentum * buffer if settings.nesterov else buffer)
    return value


CASES: list[tuple[Any, Any]] = [
    (AdamW(kind="adamw", weight_decay=0.1, eps=1e-3), adamw),
    (SGD(kind="sgd", momentum=0.9, weight_decay=0.1), sgd),
    (SGD(kind="sgd", momentum=0.9, nesterov=True), sgd),
    (SGD(kind="sgd", momentum=0), sgd),
]


@pytest.mark.parametrize(("settings", "textbook"), CASES, ids=["adamw", "momentum", "nesterov", "plain"])
def test_updates(settings: Any, textbook: Any) -> None:
    random = np.random.default_rng(0)
    start = {name: random.normal(size=shape) for name, shape in SHAPES.items()}
    gradients = {name: [random.normal(size=shape) for _ in range(STEPS)] for name, shape in SHAPES.items()}
    variables = {name: tf.Variable(value.astype(np.float32)) for name, value in start.items()}
    optimizer = build_optimizer(settings, variables)
    for step in range(STEPS):
        parts = [tf.constant(gradients[name][step].astype(np.float32)) for name in SHAPES]
        optimizer.apply(parts, tf.constant(optimizer.numbers(step + 1, RATE)))
    for name, variable in variables.items():
        decay = settings.weight_decay if name == "matrix" else 0.0
        np.testing.assert_allclose(variable, textbook(settings, start[name], gradients[name], decay), rtol=2e-5, atol=1e-6)
