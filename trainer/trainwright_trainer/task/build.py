"""From a run's ``task`` to its implementation."""

from __future__ import annotations

from trainwright_trainer.contract import training
from trainwright_trainer.failures import InvalidRunError
from trainwright_trainer.task.base import Task
from trainwright_trainer.task.causal_lm import CausalLanguageModel
from trainwright_trainer.task.image_classification import ImageClassification


def build_task(name: training.Task) -> Task:
    """The task of that name. Raises :class:`InvalidRunError` where this trainer has none."""
    match name:
        case "image-classification":
            return ImageClassification()
        case "causal-lm":
            return CausalLanguageModel()
        case _:
            raise InvalidRunError(f"this trainer cannot learn task {name}")
