"""How many parameters a run's model has."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright_trainer.contract.training import Training


@dataclass(frozen=True, slots=True)
class ModelSize:
    parameters: int | None
    how: str
    """Where the number comes from, or why there is none."""


def model_size(training: Training) -> ModelSize:
    """Built without memory and counted, tied weights once; by the contract's formula where torch is not there.

    Raises:
        InvalidRunError: ``transformers`` cannot build the model.
    """
    try:
        from trainwright_trainer.model.build import build_model
        from trainwright_trainer.model.initialise import skeleton
    except ModuleNotFoundError as error:
        formula = training.model.parameters
        said = "nor stated" if training.model.architecture == "transformers" else "known"
        how = f"{error.name} is not installed, so not counted" + ("; by formula" if formula is not None else f", {said}")
        return ModelSize(formula, how)
    module = skeleton(lambda: build_model(training.model, training.task, training.data))
    return ModelSize(sum(parameter.numel() for parameter in module.parameters()), "counted on the meta device")
