"""From a run's ``data`` to its samples."""

from __future__ import annotations

from trainwright_trainer.contract.data import Data, Digits, HFDataset, ImageFolder, PythonSource, TokenFiles
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.model import Model, TransformersModel
from trainwright_trainer.data.dataset import Dataset


def vocabulary_of(model: Model) -> int | None:
    """Tokens that a model knows; None for one of images.

    Raises:
        InvalidRunError: ``transformers`` does not understand its configuration.
    """
    if not isinstance(model, TransformersModel):
        return getattr(model, "vocab_size", None)
    from trainwright_trainer.model.configuration import read_configuration  # needs transformers, which TensorFlow's images lack

    found = getattr(read_configuration(model).built.get_text_config(), "vocab_size", None)
    return found if isinstance(found, int) else None


def load(data: Data, seed: int, model_vocabulary: int | None = None, skip_unreadable: int = 0) -> Dataset:
    """Open the data set, or read it where it is small.

    Args:
        data: The run's.
        seed: The run's: crops and flips follow from it.
        model_vocabulary: Of :func:`vocabulary_of`. On a GPU an id beyond it is an assertion in a kernel that names nothing.
        skip_unreadable: Images that this rank may leave out because they cannot be decoded.

    Raises:
        DataError: It is missing, or is not what the run says.
        StorageError: The volume failed.
    """
    dataset = _load(data, seed, model_vocabulary, skip_unreadable)
    if dataset.vocabulary is not None and model_vocabulary is not None and dataset.vocabulary > model_vocabulary:
        raise DataError(
            f"the data has a vocabulary of {dataset.vocabulary:,} tokens, and the model's vocab_size is {model_vocabulary:,}"
        )
    return dataset


def _load(data: Data, seed: int, model_vocabulary: int | None, skip_unreadable: int) -> Dataset:
    match data:
        case Digits():
            from trainwright_trainer.data import digits

            return digits.load(data)
        case PythonSource():
            from trainwright_trainer.data import python_source

            return python_source.load(data)
        case TokenFiles():
            from trainwright_trainer.data import token_files

            return token_files.load(data, model_vocabulary)
        case ImageFolder():
            from trainwright_trainer.data import image_folder

            return image_folder.load(data, seed, skip_unreadable)
        case HFDataset():
            from trainwright_trainer.data import hf_dataset

            return hf_dataset.load(data, model_vocabulary)
