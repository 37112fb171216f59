"""Small models of every architecture and head that the trainer has a recipe for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from torch import nn

from trainwright_trainer.contract.data import Data, Digits, HFDataset, PythonSource
from trainwright_trainer.contract.model import Model
from trainwright_trainer.contract.training import TaskName
from trainwright_trainer.model.build import build_model

MODEL: TypeAdapter[Model] = TypeAdapter(Model)
LENGTH = 32
TEXT = PythonSource(source="python-stdlib", sequence_length=LENGTH, files=12)
REVIEWS = HFDataset(
    source="hf-dataset", path="/data", tokenizer="/tokenizer", max_length=LENGTH, label_column="label", classes=3,
)
SIZES: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
}


@dataclass(frozen=True)
class Recipe:
    model: Model
    task: TaskName
    data: Data

    @property
    def build(self) -> Callable[[], nn.Module]:
        return lambda: build_model(self.model, self.task, self.data)


def recipe(task: TaskName, data: Data, **keys: Any) -> Recipe:
    return Recipe(MODEL.validate_python(keys), task, data)


def llama(**keys: Any) -> Recipe:
    return recipe("causal-lm", TEXT, architecture="llama", **(SIZES | keys))


def bert(**keys: Any) -> Recipe:
    return recipe("masked-lm", TEXT, architecture="bert", dropout=0.0, **(SIZES | keys))


def classifier(**keys: Any) -> Recipe:
    return recipe("text-classification", REVIEWS, architecture="bert", num_labels=3, dropout=0.0, **(SIZES | keys))


def transformers(model_type: str, task: TaskName = "causal-lm", data: Data = TEXT, **config: Any) -> Recipe:
    return recipe(task, data, architecture="transformers", model_type=model_type, config=config)


RECIPES: dict[str, Recipe] = {
    "llama": llama(),
    "llama, tied": llama(tie_word_embeddings=True, num_key_value_heads=2),
    "bert, masked-lm": bert(),
    "bert, text-classification": classifier(),
    "vit": recipe(
        "image-classification", Digits(source="digits"), architecture="vit", image_size=8, patch_size=4, num_channels=1,
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_labels=10,
    ),
    "resnet": recipe(
        "image-classification", Digits(source="digits"), architecture="resnet", num_labels=10, num_channels=1, image_size=8,
        embedding_size=16, layer_type="basic", hidden_sizes=[16, 32], depths=[1, 2],
    ),
    "gpt2": transformers(
        "gpt2", n_layer=2, n_head=2, n_embd=32, n_positions=64, vocab_size=257, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
    ),
}
