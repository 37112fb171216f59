"""Sinks: where a run's metrics go, beside ``/metrics`` and the log."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from trainwright_trainer.contract.base import Contract

Name = Annotated[str, Field(min_length=1, max_length=128)]


class TensorBoard(Contract):
    """Event files in ``tensorboard/<identity>`` beside the checkpoints."""

    to: Literal["tensorboard"] = "tensorboard"
    """Event files."""


class WandB(Contract):
    """Weights & Biases. The key comes from the pod's environment, as ``WANDB_API_KEY``."""

    to: Literal["wandb"] = "wandb"
    """Weights & Biases."""
    project: Name
    """Where the run is filed there."""
    entity: Name | None = None
    """Team or person that owns the project; default: that of the key."""
    mode: Literal["online", "offline"] = "online"
    """``offline`` writes to ``wandb`` beside the checkpoints, for ``wandb sync``."""


Sink = Annotated[TensorBoard | WandB, Field(discriminator="to")]


def sink_disagreements(metrics: Iterable[Sink]) -> list[str]:
    """Of a list with two sinks of one kind, the second would replace the first."""
    kinds = [sink.to for sink in metrics]
    return [f"metrics go to {kind} twice; keep one" for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]
