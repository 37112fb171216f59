from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter

from trainwright_trainer.contract.data import Data
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.model import Bert, Llama, Model, ResNet, TransformersModel
from trainwright_trainer.data.load import load, vocabulary_of
from trainwright_trainer.data.order import Samples


def data(source: str, **keys: Any) -> Data:
    found: Data = TypeAdapter(Data).validate_python({"source": source, **keys})
    return found


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    np.arange(1000, dtype="<u2").tofile(tmp_path / "a.bin")
    for part in ("train", "val"):
        (tmp_path / part / "a").mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / part / "a" / "a.png")
    return {"folder": tmp_path, "file": tmp_path / "a.bin"}


def test_every_source_gives_samples(paths: dict[str, Path]) -> None:
    one = Samples(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    sources = [
        data("digits"), data("python-stdlib", files=20), data("tokens", path=str(paths["file"]), sequence_length=8),
        data("image-folder", path=str(paths["folder"]), image_size=8, classes=1),
    ]
    for source in sources:
        dataset = load(source, 0)
        for split in (dataset.train, dataset.held_out):
            assert {len(column) for column in split.read(one).values()} == {1}


def test_ids_that_the_model_does_not_know(paths: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="a vocabulary of 256 tokens, and the model's vocab_size is 255"):
        load(data("python-stdlib", files=20), 0, 255)
    assert load(data("python-stdlib", files=20), 0, 256).vocabulary == 256
    tokens = data("tokens", path=str(paths["file"]), sequence_length=8)
    everything = np.arange(100)
    with pytest.raises(DataError, match="and the vocabulary has 500"):
        load(tokens, 0, 500).train.read(Samples(everything, everything))


LLAVA = {"text_config": {"model_type": "llama", "vocab_size": 99}}


@pytest.mark.parametrize(("model", "vocabulary"), [
    (Llama(vocab_size=300, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1), 300),
    (Bert(vocab_size=301, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1), 301),
    (ResNet(num_labels=3), None),
    (TransformersModel(model_type="gpt2"), 50257),
    (TransformersModel(model_type="gpt2", config={"vocab_size": 100}), 100),
    (TransformersModel(model_type="llava", config=LLAVA), 99),
    (TransformersModel(model_type="vit"), None),
])
def test_tokens_that_a_model_knows(model: Model, vocabulary: int | None) -> None:
    assert vocabulary_of(model) == vocabulary
