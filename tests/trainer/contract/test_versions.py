"""What an older trainer cannot read is listed, and nothing it reads is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer.contract.walk import lines

from trainwright_trainer import __version__
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.data import Digits, PythonSource
from trainwright_trainer.contract.model import Llama, ResNet, TransformersModel, ViT
from trainwright_trainer.contract.versions import FIELD_SINCE, KNOWN_VERSIONS, RELEASED, VALUE_SINCE, short_name

FIRST = frozenset(Path(__file__).with_name("known-to-0.1.0.txt").read_text(encoding="utf-8").split())
"""Fields and values of the first release, written down with :func:`lines` when it was made."""
NEWER = frozenset(FIELD_SINCE) | {f"{path}={value}" for path, value in VALUE_SINCE}


def test_every_field_and_value_has_its_release() -> None:
    assert set(lines(RunSpec, NEWER)) - FIRST == NEWER


def test_nothing_released_is_gone() -> None:
    assert set(lines(RunSpec)) >= FIRST


def test_releases_are_known() -> None:
    assert {*FIELD_SINCE.values(), *VALUE_SINCE.values()} <= set(KNOWN_VERSIONS[1:])


def test_what_is_in_development_is_not_released() -> None:
    assert KNOWN_VERSIONS[: len(RELEASED)] == RELEASED
    assert (KNOWN_VERSIONS[-1] in RELEASED) == (".dev" not in __version__)


@pytest.mark.parametrize(("path", "part"), [
    *[("work.model", model) for model in (
        Llama(architecture="llama", vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1),
        ViT(
            architecture="vit", image_size=8, patch_size=4, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=1, num_labels=2,
        ),
        ResNet(architecture="resnet", num_labels=2),
        TransformersModel(architecture="transformers", model_type="gpt2"),
    )],
    ("work.data", Digits(source="digits")),
    ("work.data", PythonSource(source="python-stdlib")),
])
def test_a_key_that_is_not_set_moves_no_lineage(path: str, part: Contract) -> None:
    """A lineage of checkpoints is a hash over all keys of model and data, None among them."""
    assert {f"{path}.{key}" for key in part.model_dump(mode="json")} <= FIRST


@pytest.mark.parametrize(("path", "words"), [
    ("work.engine", "engine"), ("world.rendezvous.kind", "rendezvous"), ("work.kind", "work"),
    ("work.data.source",
     "data source"), ("work.model.architecture", "architecture"),
])
def test_paths_in_words(path: str, words: str) -> None:
    assert short_name(path) == words
