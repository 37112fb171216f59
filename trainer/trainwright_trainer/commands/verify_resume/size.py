"""Whether losses and weights at another number of ranks can be compared: two things make them differ where nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT
from trainwright_trainer.contract.training import Training

DROPS = "the model's dropout is drawn by each rank"
STATISTICS = "the model normalises by the statistics of a micro batch, and that is another one there"


def incomparable(training: Training, *, same_micro: bool) -> str | None:
    """Why losses and weights at another size say nothing; None where they do.

    Args:
        same_micro: Whether each forward pass has as many samples there.

    Raises:
        InvalidRunError: The model cannot be built.
    """
    drops, statistics = _features(training)
    if drops:
        return DROPS
    return STATISTICS if statistics and not same_micro else None


def _features(training: Training) -> tuple[bool, bool]:
    """Whether a model drops anything in training, and whether it keeps batch statistics."""
    model = training.model
    if isinstance(model, Llama | ResNet):
        return False, isinstance(model, ResNet)
    if isinstance(model, Bert | ViT):
        return model.dropout > 0, False
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    from trainwright_trainer.model.build import build_model
    from trainwright_trainer.model.initialise import skeleton

    module = skeleton(lambda: build_model(model, training.task, training.data))
    layers = list(module.modules())
    # Attention drops inside of a function: its share is in the configuration alone.
    settings: dict[str, Any] = getattr(getattr(module, "config", None), "to_dict", dict)()
    drops = any(isinstance(layer, _DropoutNd) and layer.p > 0 for layer in layers) or any(_drops(settings))
    return drops, any(isinstance(layer, _BatchNorm) for layer in layers)


def _drops(settings: Any) -> Iterator[bool]:
    """For each number of a configuration, those of its parts too, whether it is a share that is dropped."""
    if isinstance(settings, dict):
        for name, value in settings.items():
            yield "drop" in str(name) and isinstance(value, float) and value > 0
            yield from _drops(value)
    elif isinstance(settings, list | tuple):
        for each in settings:
            yield from _drops(each)
