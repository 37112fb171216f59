"""The shape that a model asks of a document: which type stands where, and in which words to ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Keys = tuple[str | int, ...]
"""The way from the document to a value."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value: its type, and the key that decides between its members where it is a tagged union."""

    annotation: Any
    discriminator: str | None = None

    @property
    def members(self) -> tuple[Slot, ...]:
        """The types of a union, without None; of any other type, the type itself."""
        plain = self.plain
        if get_origin(plain.annotation) not in (Union, UnionType):
            return (plain,)
        return tuple(Slot(member).plain for member in get_args(plain.annotation) if member is not NoneType)

    @property
    def plain(self) -> Slot:
        """Without ``Annotated``, aliases and ``| None``."""
        annotation, discriminator = self.annotation, self.discriminator
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *metadata = get_args(annotation)
                found = [item.discriminator for item in metadata if isinstance(item, FieldInfo)]
                discriminator = next((item for item in found if isinstance(item, str)), discriminator)
            elif hasattr(annotation, "__value__"):
                annotation = annotation.__value__
            elif len(rest := _without_none(annotation)) == 1:
                annotation = rest[0]
            else:
                return Slot(annotation, discriminator)

    @property
    def model(self) -> type[BaseModel] | None:
        annotation = self.plain.annotation
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

    def tags(self) -> dict[str, Slot]:
        """Value of the discriminator -> member, for a tagged union."""
        plain = self.plain
        if plain.discriminator is None:
            return {}
        fields = ((member, member.model.model_fields.get(plain.discriminator)) for member in self.members if member.model)
        return {str(tag): member for member, field in fields if field is not None for tag in get_args(field.annotation)}

    def below(self, key: str | int) -> Slot:
        """The slot of a key or index; of type Any where the type does not say."""
        annotation = self.plain.annotation
        if self.model is not None:
            return slots(self.model).get(str(key), Slot(Any))
        arguments = get_args(annotation)
        if _is_origin(annotation, Mapping) and len(arguments) == 2:
            return Slot(arguments[1])
        if _is_origin(annotation, Sequence) and arguments and isinstance(key, int):
            return Slot(arguments[key] if key < len(arguments) and arguments[-1] is not Ellipsis else arguments[0])
        return Slot(Any)


def slots(model: type[BaseModel]) -> dict[str, Slot]:
    """The slots of a model's fields."""
    return {
        name: Slot(field.annotation, field.discriminator if isinstance(field.discriminator, str) else None)
        for name, field in model.model_fields.items()
    }


def required(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, field in model.model_fields.items() if field.is_required())


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the document an error of pydantic lies."""

    keys: Keys
    slot: Slot
    owner: type[BaseModel] | None
    """The model that has, or does not have, the last key."""
    branches: tuple[tuple[Keys, int], ...]
    """For each untagged union on the way: where it stands, and the index of the member that was tried."""
    is_key: bool
    """Whether the key itself is wrong, not its value."""


def find_spot(root: Slot, loc: Sequence[str | int]) -> Spot:
    """The spot of pydantic's ``loc``, which also names the members of unions on the way."""
    slot, is_key = root, False
    owner: type[BaseModel] | None = None
    keys: list[str | int] = []
    branches: list[tuple[Keys, int]] = []
    for item in loc:
        members = slot.members
        if item == "[key]":
            is_key = True
        elif len(members) > 1:
            tags = slot.tags()
            if tags:
                slot = tags.get(str(item), Slot(Any))
            else:
                index = _tried(members, str(item))
                branches.append((tuple(keys), index))
                slot = members[index]
        else:
            owner = slot.model
            keys.append(item)
            slot = slot.below(item)
    return Spot(tuple(keys), slot, owner, tuple(branches), is_key)


def _tried(members: Sequence[Slot], label: str) -> int:
    """Index of the union's member that pydantic calls ``label``: a model's name, bare or in function-after[...], or a type."""
    for index, member in enumerate(members):
        if member.model and (label == member.model.__name__ or label.endswith(f" {member.model.__name__}]")):
            return index
    others = [index for index, member in enumerate(members) if member.model is None]
    named = [index for index in others if getattr(members[index].annotation, "__name__", "") in label]
    return (named or others or [0])[0]


def fits(member: Slot, value: object) -> tuple[int, int]:
    """How well a value's form agrees with a member of an untagged union; greater is better. A misspelt key counts as meant."""
    model = member.model
    if not isinstance(value, Mapping):
        return (-1, 0) if model else (0, 0)
    if model is None:
        return (-1, 0)
    missing = sum(name not in value for name in required(model))
    return sum(key in model.model_fields or closest(str(key), model.model_fields) is not None for key in value), -missing


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one of the known words that a person may have meant; nodesPerPod and nodes-per-pod are nodes_per_pod."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).replace("-", "_").lower()
    candidates = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(snake[:100], candidates, n=1, cutoff=0.6)
    return candidates[match[0]] if match else None


def homes(root: Slot, key: str) -> Iterator[str]:
    """Where in the document a key is known: the top level, or dotted paths of mappings."""
    if root.model and key in root.model.model_fields:
        yield "the top level"
    yield from _homes(root, key, "", frozenset())


def _homes(slot: Slot, key: str, path: str, seen: frozenset[type[BaseModel]]) -> Iterator[str]:
    plain = slot.plain
    tags = {member.model: tag for tag, member in slot.tags().items()}
    for member in slot.members:
        model = member.model
        if model is None:
            arguments = get_args(member.annotation)
            if _is_origin(member.annotation, Mapping) and len(arguments) == 2:
                yield from _homes(Slot(arguments[1]), key, f"{path}.<name>", seen)
            elif _is_origin(member.annotation, Sequence) and arguments:
                yield from _homes(Slot(arguments[0]), key, f"{path}[]", seen)
        elif model not in seen:
            if key in model.model_fields and path:
                yield f"`{path.removeprefix('.')}`" + (f" (of {plain.discriminator} {tags[model]})" if model in tags else "")
            for name, below in slots(model).items():
                yield from _homes(below, key, f"{path}.{name}", seen | {model})


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", date: "a day such as 2026-03-31"}


def wanted(slot: Slot) -> str:
    """What belongs into a slot, in words."""
    members = slot.members
    tags = slot.tags()
    if tags:
        return f"a mapping with `{slot.plain.discriminator}: …`, one of {', '.join(tags)}"
    if len(members) > 1:
        return " or ".join(wanted(member) for member in members)
    plain = members[0].annotation
    if get_origin(plain) is Literal:
        values = [literal(value) for value in get_args(plain)]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if members[0].model is not None:
        needs = required(members[0].model)
        return "a mapping" + (f" with {', '.join(needs)}" if needs else "")
    if _is_origin(plain, Mapping):
        return "a mapping"
    if _is_origin(plain, Sequence):
        return "a list"
    examples = getattr(plain, "JSON_SCHEMA", {}).get("examples")
    if examples:
        return f"a value such as {' or '.join(str(example) for example in examples[:2])}"
    return _WORDS.get(plain, "a value")


def literal(value: object) -> str:
    """A value as it is written in YAML."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else str(value)


def _without_none(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (Union, UnionType):
        return ()
    return tuple(member for member in get_args(annotation) if member is not NoneType)


def _is_origin(annotation: Any, base: type) -> bool:
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, base) and origin is not str
