"""From a run's ``task`` to its implementation."""

from __future__ import annotations

from pathlib import Path

from trainwright_trainer.contract.data import Data, Digits, HFDataset, ImageFolder, PythonSource, TokenFiles
from trainwright_trainer.contract.training import TaskName
from trainwright_trainer.task.base import Task
from trainwright_trainer.task.causal_lm import CausalLanguageModel
from trainwright_trainer.task.classification import ImageClassification, TextClassification
from trainwright_trainer.task.masked_lm import MaskedLanguageModel


def build_task(name: TaskName, data: Data | None = None, seed: int = 0) -> Task:
    """The task of that name.

    Args:
        name: The run's ``task``.
        data: The run's; masked-lm finds the token for its mask there.
        seed: The run's; masked-lm draws its masks from it.

    Raises:
        DataError: The data's tokenizer cannot be read, or has no token for a mask.
    """
    match name:
        case "image-classification":
            return ImageClassification()
        case "causal-lm":
            return CausalLanguageModel(data.sequence_length if isinstance(data, PythonSource | TokenFiles) else None)
        case "text-classification":
            return TextClassification()
        case "masked-lm":
            return _masked(data, seed)


def _masked(data: Data | None, seed: int) -> Task:
    if isinstance(data, HFDataset):
        from trainwright_trainer.data.tokenizer import TextTokenizer

        tokenizer = TextTokenizer(Path(data.tokenizer))
        return MaskedLanguageModel(seed, tokenizer.mask_id, tokenizer.vocabulary)
    if data is None or isinstance(data, Digits | ImageFolder) or data.vocabulary is None:
        raise ValueError("masked-lm reads text with a known vocabulary")  # the contract refuses the rest
    return MaskedLanguageModel(seed, data.vocabulary, data.vocabulary)
