"""Task, model and data that do not fit, and the key that each sentence names; how many samples a run takes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.trainer.contract.specifications import BERT, LLAMA, RESNET

from trainwright_trainer.contract.data import Data, ImageFolder, TokenFiles
from trainwright_trainer.contract.model import Model
from trainwright_trainer.contract.training import Duration, TaskName, disagreements

MODEL: TypeAdapter[Any] = TypeAdapter(Model)
DATA: TypeAdapter[Any] = TypeAdapter(Data)
DIGITS = {"source": "digits"}
SOURCE = {"source": "python-stdlib"}
TOKENS = {"source": "tokens", "path": "/data/tokens", "sequence_length": 64}
FOLDER = {"source": "image-folder", "path": "/data", "image_size": 224, "classes": 1000}
REVIEWS = {"source": "hf-dataset", "path": "/data/reviews", "tokenizer": "/data/tokenizer", "max_length": 128}
LABELLED = REVIEWS | {"label_column": "label", "classes": 2}
BIG = {"image_size": 224, "num_channels": 3, "num_labels": 1000}
ANY_MODEL = {"architecture": "transformers", "model_type": "gpt2"}


def problems(task: TaskName, model: dict[str, Any], data: dict[str, Any]) -> list[str]:
    return disagreements(task, MODEL.validate_python(model), DATA.validate_python(data))


@pytest.mark.parametrize(("task", "model", "data"), [
    ("image-classification", RESNET, DIGITS),
    ("image-classification", RESNET | BIG, FOLDER),
    ("image-classification", ANY_MODEL, FOLDER),
    ("causal-lm", LLAMA, SOURCE),
    ("causal-lm", LLAMA, TOKENS),
    ("causal-lm", LLAMA | {"vocab_size": 128256}, TOKENS | {"dtype": "uint32", "vocabulary": 128256}),
    ("causal-lm", LLAMA, REVIEWS),
    ("masked-lm", BERT, SOURCE),
    ("masked-lm", BERT, TOKENS | {"vocabulary": 299}),
    ("masked-lm", BERT, REVIEWS | {"text_columns": ["a", "b"]}),
    ("text-classification", BERT | {"num_labels": 2}, LABELLED),
    ("text-classification", ANY_MODEL, LABELLED),
])
def test_what_fits(task: TaskName, model: dict[str, Any], data: dict[str, Any]) -> None:
    assert problems(task, model, data) == []


@pytest.mark.parametrize("config", [{"output_router_logits": True}, {"text_config": {"output_router_logits": True}}])
def test_an_auxiliary_loss_that_nobody_would_add_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="minimises the loss of the task alone; remove it"):
        MODEL.validate_python(ANY_MODEL | {"model_type": "mixtral", "config": config})
    MODEL.validate_python(ANY_MODEL | {"model_type": "mixtral", "config": {"output_router_logits": False}})


@pytest.mark.parametrize(("task", "model", "data", "sentence"), [
    ("image-classification", RESNET, SOURCE,
     "task image-classification cannot read data source python-stdlib; use digits or image-folder, "
     "or task causal-lm or masked-lm"),
    ("text-classification", BERT, TOKENS,
     "task text-classification cannot read data source tokens; use hf-dataset, or task causal-lm or masked-lm"),
    ("causal-lm", RESNET, SOURCE,
     "architecture resnet reads images and cannot learn task causal-lm; use llama or transformers, or task image-classification"),
    ("masked-lm", LLAMA, SOURCE,
     "architecture llama is a language model and cannot learn task masked-lm; use bert or transformers, or task causal-lm"),
    ("image-classification", RESNET | {"num_channels": 3}, DIGITS,
     "digits are grey images: set model.num_channels to 1 instead of 3"),
    ("image-classification", RESNET | BIG | {"num_labels": 10}, FOLDER,
     "data.classes is 1000: set model.num_labels to 1000 instead of 10"),
    ("image-classification", RESNET | BIG | {"image_size": 8}, FOLDER,
     "data.image_size is 224: set model.image_size to 224 instead of 8"),
    ("image-classification", RESNET | BIG, FOLDER | {"channels": 1},
     "data.channels is 1: set model.num_channels to 1 instead of 3"),
    ("text-classification", BERT | {"num_labels": 2}, LABELLED | {"label_column": None},
     "task text-classification needs data.label_column"),
    ("text-classification", BERT | {"num_labels": 2}, LABELLED | {"classes": None},
     "task text-classification needs data.classes"),
    ("text-classification", BERT, LABELLED, "data.classes is 2: set model.num_labels to 2 instead of leaving it out"),
    ("text-classification", BERT | {"num_labels": 3}, LABELLED, "data.classes is 2: set model.num_labels to 2 instead of 3"),
    ("masked-lm", BERT | {"num_labels": 2}, REVIEWS, "task masked-lm predicts tokens; remove model.num_labels"),
    ("causal-lm", LLAMA, REVIEWS | {"label_column": "label"}, "task causal-lm reads no labels; remove data.label_column"),
    ("causal-lm", LLAMA, REVIEWS | {"text_columns": ["a", "b"]},
     "task causal-lm reads one column of text; name one in data.text_columns"),
    ("masked-lm", BERT, TOKENS, "task masked-lm takes the first id above the data's tokens as its mask; add data.vocabulary"),
    ("masked-lm", BERT | {"vocab_size": 256}, SOURCE,
     "task masked-lm needs one token more than the data's 256 for its mask; raise model.vocab_size"),
    ("causal-lm", LLAMA, TOKENS | {"vocabulary": 300}, "model.vocab_size 256 is below the data's vocabulary of 300"),
    ("masked-lm", BERT, REVIEWS | {"max_length": 513}, "model.max_position_embeddings 512 is shorter than data.max_length 513"),
    ("causal-lm", LLAMA, TOKENS | {"sequence_length": 5000},
     "model.max_position_embeddings 4096 is shorter than data.sequence_length 5000"),
    ("causal-lm", LLAMA | {"vocab_size": 70_000}, TOKENS | {"vocabulary": 70_000},
     "dtype uint16 holds 65,536 tokens and data.vocabulary is 70,000; use uint32"),
])
def test_what_does_not_fit(task: TaskName, model: dict[str, Any], data: dict[str, Any], sentence: str) -> None:
    assert problems(task, model, data) == [sentence]


def test_samples_of_an_epoch() -> None:
    tokens = TokenFiles.model_validate(TOKENS | {"samples": 1000, "held_out": 0.1})
    assert tokens.train_samples == 900
    assert TokenFiles.model_validate(TOKENS).train_samples is None
    assert ImageFolder.model_validate(FOLDER | {"samples": 1_281_167}).train_samples == 1_281_167


@pytest.mark.parametrize("folder", ["../other", "a/b", "", ".hidden"])
def test_folders_stay_inside(folder: str) -> None:
    with pytest.raises(ValueError, match="train_folder"):
        DATA.validate_python(FOLDER | {"train_folder": folder})


@pytest.mark.parametrize(
    ("duration", "target"),
    [(Duration(steps=10), 640), (Duration(epochs=2.5), 2500), (Duration(epochs=0.0001), 1), (Duration(epochs=1.0001), 1001)],
)
def test_targets(duration: Duration, target: int) -> None:
    assert duration.target_samples(dataset_size=1000, global_batch=64) == target


def test_a_share_of_an_epoch_is_what_is_written() -> None:
    """As binary fractions these would be a sample more."""
    assert Duration(epochs=1.1).target_samples(dataset_size=50_000, global_batch=250) == 55_000
    assert Duration(epochs=2.2).target_samples(dataset_size=100, global_batch=10) == 220
