"""AdamW and SGD as torch has them, so that a run means the same under every engine.

Keras's own differ in detail: its Adam adds epsilon before the second moment is corrected for its bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.contract import training
from trainwright_trainer.contract.training import AdamW

Variable = Any
"""A ``tf.Variable`` of a strategy: one copy on each replica, which each updates by itself from equal gradients."""
_MATRIX = 2
"""Dimensions from which on a variable is decayed: biases and norms have fewer."""


class Optimizer(Protocol):
    """Updates variables in place."""

    @property
    def slots(self) -> Mapping[str, Variable]:
        """Its state, by kind and name of the variable, such as ``exp_avg/head/kernel``."""

    def numbers(self, step: int, rate: float) -> Array:
        """What step ``step`` (the first is 1) needs besides gradients, float32 ``(3,)``, worked out in double precision."""

    def apply(self, gradients: Sequence[Any], numbers: Any) -> None:
        """One update, called in a replica."""


def build_optimizer(settings: training.Optimizer, variables: Mapping[str, Variable]) -> Optimizer:
    """The run's optimizer over these variables. Call it in the strategy's scope."""
    return AdamWOptimizer(settings, variables) if isinstance(settings, AdamW) else SGDOptimizer(settings, variables)


class AdamWOptimizer:
    """Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2, with the operations in the order of torch.optim.adamw."""

    def __init__(self, settings: AdamW, variables: Mapping[str, Variable]) -> None:
        self._settings, self._variables = settings, variables
        self.slots = {**_zeros("exp_avg", variables), **_zeros("exp_avg_sq", variables)}

    def numbers(self, step: int, rate: float) -> Array:
        first, second = self._settings.betas
        decay, size, root = 1 - rate * self._settings.weight_decay, rate / (1 - first**step), math.sqrt(1 - second**step)
        return np.array([decay, size, root], dtype=np.float32)

    def apply(self, gradients: Sequence[Any], numbers: Any) -> None:
        first, second = self._settings.betas
        decay, size, root = numbers[0], numbers[1], numbers[2]
        for (name, variable), gradient in zip(self._variables.items(), gradients, strict=True):
            average, square = self.slots[f"exp_avg/{name}"], self.slots[f"exp_avg_sq/{name}"]
            value = variable * decay if len(variable.shape) >= _MATRIX else variable
            averaged = average.assign(average * first + gradient * (1 - first))
            squared = square.assign(square * second + gradient * gradient * (1 - second))
            variable.assign(value - size * averaged / (tf.sqrt(squared) / root + self._settings.eps))


class SGDOptimizer:
    """torch.optim.SGD without dampening."""

    def __init__(self, settings: training.SGD, variables: Mapping[str, Variable]) -> None:
        self._settings, self._variables = settings, variables
        self.slots = _zeros("momentum_buffer", variables) if settings.momentum else {}

    def numbers(self, step: int, rate: float) -> Array:
        return np.array([rate, 0, 0], dtype=np.float32)

    def apply(self, gradients: Sequence[Any], numbers: Any) -> None:
        momentum, decay = self._settings.momentum, self._settings.weight_decay
        for (name, variable), gradient in zip(self._variables.items(), gradients, strict=True):
            direction = gradient + decay * variable if decay and len(variable.shape) >= _MATRIX else gradient
            if momentum:
                buffer = self.slots[f"momentum_buffer/{name}"]
                updated = buffer.assign(buffer * momentum + direction)
                direction = direction + momentum * updated if self._settings.nesterov else updated
            variable.assign(variable - numbers[0] * direction)


def _zeros(kind: str, variables: Mapping[str, Variable]) -> dict[str, Variable]:
    return {
        f"{kind}/{name}": tf.Variable(tf.zeros(variable.shape), trainable=False, name=f"{kind}_{number}")
        for number, (name, variable) in enumerate(variables.items())
    }
