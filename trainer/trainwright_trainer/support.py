"""What this trainer plays of the contract, and the sentence for what it does not play yet.

The contract runs ahead of the trainer: a specification can be valid, and name an engine that this release has not got. Such a run
is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from trainwright_trainer import __version__
from trainwright_trainer.contract.data import Data
from trainwright_trainer.contract.engine import Engine, RendezvousKind
from trainwright_trainer.contract.model import Model
from trainwright_trainer.contract.spec import RunSpec, Work
from trainwright_trainer.contract.training import Precision, Task
from trainwright_trainer.contract.versions import FIELD_SINCE, VALUE_SINCE, short_name


@dataclass(frozen=True, slots=True)
class Choice:
    """A field with a value from a list."""

    path: str
    """Dotted path in ``RunSpec``."""
    known: tuple[str, ...]
    """What the contract allows."""
    played: tuple[str, ...]
    """What this trainer does."""
    instead: str
    """What a person can write today."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A field that this trainer does not act on: only its default is played."""

    path: str
    instead: str


def _tags(union: Any, key: str) -> tuple[str, ...]:
    """The values of the discriminator of an annotated union."""
    models = get_args(get_args(union)[0])
    return tuple(tag for model in models for tag in get_args(model.model_fields[key].annotation))


CHOICES = (
    Choice("world.rendezvous.kind", get_args(RendezvousKind), ("static",), "use a target that gives its pods fixed indexes"),
    Choice("work.kind", _tags(Work, "kind"), ("trainer", "script"), "start the program as a script"),
    Choice("work.engine", get_args(Engine), ("ddp",), "use topology ddp"),
    Choice("work.task", get_args(Task), ("image-classification", "causal-lm"), "use image-classification or causal-lm"),
    Choice(
        "work.model.architecture", _tags(Model, "architecture"), ("llama", "bert", "vit", "resnet", "transformers"),
        "use model_type of architecture transformers",
    ),
    Choice("work.data.source", _tags(Data, "source"), ("digits", "python-stdlib"), "use digits or python-stdlib"),
    Choice("work.precision", get_args(Precision), ("fp32", "bf16"), "use bf16 or fp32"),
    Choice("work.gradient_reduction", get_args(Precision), ("fp32",), "remove it, which means fp32"),
)
SETTINGS = (
    Setting("work.initial_weights", "remove it, and start from random weights"),
    Setting("work.activation_checkpointing", "remove it, and lower batch.micro"),
)
"""What is missing is added here, and taken out again by whoever builds it."""


def missing(spec: RunSpec) -> list[str]:
    """What a valid specification asks for and this trainer has not got, each in a sentence that says what to write instead."""
    return [*_unplayed(spec), *_unread(spec)]


def _unplayed(spec: RunSpec) -> Iterator[str]:
    for choice in CHOICES:
        value = _value(spec, choice.path)
        if value in choice.known and value not in choice.played:  # work of another kind has a field there of its own
            since = VALUE_SINCE.get((choice.path, value)) or FIELD_SINCE[choice.path]
            yield _sentence(f"{short_name(choice.path)} {value}", choice.instead, since)


def _unread(spec: RunSpec) -> Iterator[str]:
    for setting in SETTINGS:
        if _value(spec, setting.path):
            yield _sentence(short_name(setting.path), setting.instead, FIELD_SINCE[setting.path])


def _value(spec: RunSpec, path: str) -> Any:
    """None where a part of the path is not in this kind of work."""
    part: Any = spec
    for key in path.split("."):
        part = getattr(part, key, None)
    return part


def _sentence(what: str, instead: str, since: str) -> str:
    return (
        f"{what} is known to the contract, and this trainer ({__version__}) does not have it yet: {instead}, "
        f"or an image of {since}"
    )
