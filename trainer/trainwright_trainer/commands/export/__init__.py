"""Exporting: from a committed checkpoint to a directory that ``from_pretrained`` loads."""

from trainwright_trainer.checkpoint.record import TRAINED, Trained
from trainwright_trainer.commands.export.run import Exported, Request, export

__all__ = ["TRAINED", "Exported", "Request", "Trained", "export"]
