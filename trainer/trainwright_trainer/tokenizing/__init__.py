"""From text to files of token ids: ``trainwright-trainer tokenize``."""

from trainwright_trainer.tokenizing.documents import Source
from trainwright_trainer.tokenizing.run import Request, tokenize

__all__ = ["Request", "Source", "tokenize"]
