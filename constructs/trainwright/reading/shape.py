"""The shape that a model asks of a document: which type belongs where, and in which words to ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator, JsonValue, Tag
from pydantic.fields import FieldInfo

from trainwright.scalar import literal

Keys = tuple[str | int, ...]
"""The way from the document to a value."""

WORDS = {
    "str": "text", "string": "text", "int": "a whole number", "integer": "a whole number", "float": "a number",
    "number": "a number", "finite": "a finite number", "bool": "true or false", "boolean": "true or false",
    "date": "a day such as 2026-03-31", "dict": "a mapping", "model": "a mapping", "Mapping": "a mapping", "object": "a mapping",
    "list": "a list", "tuple": "a list", "Sequence": "a list", "array": "a list",
}
"""A type's name in Python or in JSON Schema, or the first word of what pydantic calls its error -> the type as people say it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value: its type, and what decides between its members where it is a tagged union."""

    annotation: Any
    discriminator: str | Discriminator | None = None

    @property
    def plain(self) -> Slot:
        """Without ``Annotated``, aliases and ``| None``."""
        annotation, discriminator = self.annotation, self.discriminator
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *metadata = get_args(annotation)
                found = [item.discriminator if isinstance(item, FieldInfo) else item for item in metadata]
                discriminator = next((item for item in found if isinstance(item, str | Discriminator)), discriminator)
            elif hasattr(annotation, "__value__"):
                annotation = annotation.__value__
            elif len(rest := _union(annotation)) == 1:
                annotation = rest[0]
            else:
                return Slot(annotation, discriminator)

    @property
    def members(self) -> tuple[Slot, ...]:
        """The types of a union, without None; of any other type, the type itself."""
        plain = self.plain
        return tuple(Slot(member).plain for member in _union(plain.annotation)) or (plain,)

    @property
    def model(self) -> type[BaseModel] | None:
        annotation = self.plain.annotation
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

    @property
    def chooser(self) -> str | None:
        """The key that decides between the members of a tagged union."""
        discriminator = self.plain.discriminator
        return discriminator if isinstance(discriminator, str) else None

    def tags(self) -> dict[str, Slot]:
        """Tag -> member, for a tagged union: values of its key, or the tags that a function gives."""
        if self.chooser:
            fields = ((member, member.model.model_fields.get(self.chooser)) for member in self.members if member.model)
            return {str(tag): member for member, field in fields if field is not None for tag in get_args(field.annotation)}
        named = ((member, get_args(member)[1:]) for member in _union(self.plain.annotation))
        return {item.tag: Slot(member).plain for member, metadata in named for item in metadata if isinstance(item, Tag)}

    def below(self, key: str | int) -> Slot:
        """The slot of a key or index; of type Any where the type does not say."""
        if self.model is not None:
            return slots(self.model).get(str(key), Slot(Any))
        annotation = self.plain.annotation
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
    is_key: bool
    """Whether the key itself is wrong, not its value."""


def find_spot(root: Slot, loc: Sequence[str | int]) -> Spot:
    """The spot of pydantic's ``loc``, which also names the members of unions on the way."""
    slot, is_key = root, False
    owner: type[BaseModel] | None = None
    keys: list[str | int] = []
    for item in loc:
        if item == "[key]":
            is_key = True
        elif len(slot.members) > 1:
            slot = slot.tags().get(str(item), Slot(Any))
        else:
            owner = slot.model
            keys.append(item)
            slot = slot.below(item)
            slot = Slot(JsonValue) if slot.annotation == "JsonValue" else slot  # which is made of itself
    return Spot(tuple(keys), slot, owner, is_key)


def homes(root: Slot, key: str) -> tuple[str, ...]:
    """Where in the document a key is known: the top level, or dotted paths of mappings."""
    return _known_keys(root.model).get(key, ()) if root.model else ()


@lru_cache(maxsize=8)
def _known_keys(model: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Key -> its homes, found in one walk for all keys: a file may have many that are unknown."""
    known: dict[str, dict[str, None]] = {name: {"the top level": None} for name in model.model_fields}
    for key, home in _homes(Slot(model), "", frozenset()):
        known.setdefault(key, {})[home] = None
    return {key: tuple(places) for key, places in known.items()}


def _homes(slot: Slot, path: str, seen: frozenset[type[BaseModel]]) -> Iterator[tuple[str, str]]:
    """Each key of each mapping below the slot, and where that mapping is."""
    tags = {member.model: f" (of {slot.chooser} {tag})" for tag, member in slot.tags().items()} if slot.chooser else {}
    for member in slot.members:
        model, arguments = member.model, get_args(member.annotation)
        if model is None:
            if _is_origin(member.annotation, Mapping) and len(arguments) == 2:
                yield from _homes(Slot(arguments[1]), f"{path}.<name>", seen)
            elif _is_origin(member.annotation, Sequence) and arguments:
                yield from _homes(Slot(arguments[0]), f"{path}[]", seen)
        elif model not in seen:
            if path:
                yield from ((key, f"`{path.removeprefix('.')}`{tags.get(model, '')}") for key in model.model_fields)
            for name, below in slots(model).items():
                yield from _homes(below, f"{path}.{name}", seen | {model})


def wanted(slot: Slot) -> str:
    """What belongs into a slot, in words."""
    members = slot.members
    if slot.chooser:
        return f"a mapping with `{slot.chooser}: …`, one of {', '.join(slot.tags())}"
    if len(members) > 1:
        return " or ".join(wanted(member) for member in members)
    plain = members[0].annotation
    if get_origin(plain) is Literal:
        values = [literal(value) for value in get_args(plain)]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if members[0].model is not None:
        needs = required(members[0].model)
        return "a mapping" + (f" with {', '.join(needs)}" if needs else "")
    examples = getattr(plain, "JSON_SCHEMA", {}).get("examples")
    if examples:
        return f"a value such as {' or '.join(str(example) for example in examples[:2])}"
    return WORDS.get(getattr(get_origin(plain) or plain, "__name__", ""), "a value")


def _union(annotation: Any) -> tuple[Any, ...]:
    """Members of a union, without None; none of any other type."""
    if get_origin(annotation) not in (Union, UnionType):
        return ()
    return tuple(member for member in get_args(annotation) if member is not NoneType)


def _is_origin(annotation: Any, base: type) -> bool:
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, base) and origin is not str
