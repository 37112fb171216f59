"""What a checkpoint was trained as: all that says which module its weights belong to."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ValidationError

from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.data import Data
from trainwright_trainer.contract.model import Model
from trainwright_trainer.contract.training import Task, Training

TRAINED = "trained"
"""Key of a commit record's ``metadata`` that holds a :class:`Trained`, for records that say it."""


class Trained(Contract):
    """Part of a run's specification."""

    task: Task
    model: Model
    data: Data

    @classmethod
    def of(cls, training: Training) -> Self:
        return cls(task=training.task, model=training.model, data=training.data)

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Self | None:
        """None where a record does not say it, or says it in words of another release."""
        try:
            return cls.model_validate(metadata[TRAINED])
        except (KeyError, ValidationError):
            return None
