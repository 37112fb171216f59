"""From text to files of token ids: ``trainwright-trainer tokenize``."""

from trainwright_trainer.commands.tokenize.documents import Source
from trainwright_trainer.commands.tokenize.run import Request, tokenize

__all__ = ["Request", "Source", "tokenize"]
