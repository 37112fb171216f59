"""The commands of ``trainwright-trainer``, a module for those that belong together."""

from trainwright_trainer.commands import (  # noqa: I001  in the order of the help
    pods as pods,
    specification as specification,
    trials as trials,
    tokens as tokens,
    checkpoints as checkpoints,
)
from trainwright_trainer.commands.app import app

__all__ = ["app"]
