"""Exporting: from a committed checkpoint to a directory that ``from_pretrained`` loads."""

from trainwright_trainer.commands.export.run import Exported, Request, export
from trainwright_trainer.trained import TRAINED, Trained

__all__ = ["TRAINED", "Exported", "Request", "Trained", "export"]
