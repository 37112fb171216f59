"""The shape that a model asks of a document, read from its JSON Schema: what belongs where, and in which words to ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from trainwright.model import file_schema
from trainwright.units import literal

Keys = tuple[str | int, ...]
"""The way from the document to a value."""

WORDS = {
    "string": "text", "int": "a whole number", "integer": "a whole number", "float": "a number", "number": "a number",
    "finite": "a finite number", "bool": "true or false", "boolean": "true or false", "date": "a day such as 2026-03-31",
    "dict": "a mapping", "model": "a mapping", "object": "a mapping", "list": "a list", "tuple": "a list", "array": "a list",
}
"""A type in JSON Schema, or the first word of what pydantic calls its error -> the type as people say it."""


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A place for a value: its schema, without references and without null."""

    schema: dict[str, Any]
    parts: dict[str, dict[str, Any]]
    """Schemas that others refer to, by name."""
    name: str = ""
    """In ``parts``; empty for a schema that is written in its place."""

    @property
    def members(self) -> tuple[Slot, ...]:
        """The types of a union, without null; of any other type, the type itself."""
        forms = self.schema.get("oneOf") or self.schema.get("anyOf")
        return tuple(self._slot(form) for form in forms if form != _NULL) if forms else (self,)

    @property
    def chooser(self) -> str | None:
        """The key that decides between the members of a tagged union."""
        key: str | None = self.schema.get("discriminator", {}).get("propertyName")
        return key

    @property
    def fields(self) -> dict[str, Slot]:
        """The keys of a mapping that a model describes."""
        return {key: self._slot(schema) for key, schema in self.schema.get("properties", {}).items()}

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.schema.get("required", ()))

    @property
    def values(self) -> list[str]:
        """The only values that it takes, as they are written; empty where it takes others."""
        only = [self.schema["const"]] if "const" in self.schema else self.schema.get("enum", [])
        return [literal(value) for value in only]

    @property
    def keys(self) -> list[str]:
        """The only keys that a mapping with keys of the user's own takes."""
        return [literal(key) for key in self.schema.get("propertyNames", {}).get("enum", [])]

    @property
    def each(self) -> Slot | None:
        """What every value of a mapping with keys of the user's own is."""
        schemas = [*self.schema.get("patternProperties", {}).values(), self.schema.get("additionalProperties")]
        return next((self._slot(schema) for schema in schemas if isinstance(schema, dict)), None)

    def tags(self) -> dict[str, Slot]:
        """Tag -> member: values of the chooser, or what a function calls the members, which is their name or type."""
        if self.chooser:
            names = {tag: _name(reference) for tag, reference in self.schema["discriminator"]["mapping"].items()}
            return {tag: member for member in self.members for tag, name in names.items() if name == member.name}
        types = {"string": "text", "object": "mapping"}
        return {member.name or types.get(member.schema.get("type", ""), ""): member for member in self.members}

    def below(self, key: str | int) -> Slot:
        """The slot of a key or index; one for anything where the schema does not say."""
        if isinstance(key, int):
            items = self.schema.get("prefixItems", [])
            return self._slot(items[key] if key < len(items) else self.schema.get("items", {}))
        return self.fields.get(key) or self.each or self._slot({})

    def _slot(self, schema: dict[str, Any]) -> Slot:
        name = ""
        while True:
            forms = [form for form in schema.get("anyOf", ()) if form != _NULL]
            if "$ref" in schema:
                name = _name(schema["$ref"])
                schema = self.parts[name]
            elif len(forms) == 1:
                schema = forms[0]
            else:
                return Slot(schema, self.parts, name)


_NULL, _JSON = {"type": "null"}, {"$ref": "#/$defs/JsonValue"}


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


@lru_cache(maxsize=8)
def shape_of(model: type[BaseModel] | None) -> Slot:
    """The slot of a whole document; one for anything where the model is not known, or holds what JSON Schema cannot say."""
    try:
        schema = file_schema(model) if model is not None else {}
    except Exception:  # a model of the user's own may hold or raise anything
        schema = {}
    return Slot({}, schema.get("$defs", {}))._slot(schema)


def find_spot(root: Slot, loc: Sequence[str | int]) -> tuple[Keys, Slot, Slot, bool]:
    """The place of pydantic's ``loc``, which also names the members of unions on the way.

    Returns:
        The keys to it, the slot there, the slot that has or lacks the last key, and whether that key is wrong and not its value.
    """
    slot, owner, is_key = root, root, False
    keys: list[str | int] = []
    for item in loc:
        if item == "[key]":
            is_key = True
        elif slot.name == "JsonValue":  # made of itself, and its schema does not say so
            slot = Slot({"items": _JSON, "additionalProperties": _JSON}, root.parts)
        elif len(slot.members) > 1:
            slot = slot.tags().get(str(item)) or Slot({}, root.parts)
        else:
            keys.append(item)
            owner, slot = slot, slot.below(item)
    return tuple(keys), slot, owner, is_key


class Home(NamedTuple):
    """A mapping that has a certain key."""

    path: tuple[str, ...] = ()
    """Keys from the top level; ``<name>`` for one of the user's own, and ``[]`` for an index."""
    kind: str = ""
    """``kind trainer``, where a mapping has the key only if it is of that kind."""

    def __str__(self) -> str:
        text = f"`{'.'.join(self.path).replace('.[]', '[]')}`" if self.path else "the top level"
        return f"{text} (of {self.kind})" if self.kind else text

    def is_at(self, keys: Keys) -> bool:
        """Whether the keys lead to it."""
        there = ["[]" if isinstance(key, int) else key for key in keys]
        return len(there) == len(self.path) and all(own in (key, "<name>") for own, key in zip(self.path, there, strict=True))


@lru_cache(maxsize=8)
def homes(root: Slot) -> dict[str, tuple[Home, ...]]:
    """Each key -> where in the document it is known."""
    known: dict[str, dict[Home, None]] = {name: {Home(): None} for name in root.fields}
    for key, home in _homes(root, (), frozenset()):
        known.setdefault(key, {})[home] = None
    return {key: tuple(places) for key, places in known.items()}


def _homes(slot: Slot, path: tuple[str, ...], seen: frozenset[str]) -> Iterator[tuple[str, Home]]:
    """Each key of each mapping below the slot, and where that mapping is."""
    kinds = {member.name: f"{slot.chooser} {tag}" for tag, member in slot.tags().items()} if slot.chooser else {}
    for member in slot.members:
        if member.name and member.name in seen:
            continue
        inside = seen | {member.name}
        for name, below in member.fields.items():
            if path:
                yield name, Home(path, kinds.get(member.name, ""))
            yield from _homes(below, (*path, name), inside)
        if member.each:
            yield from _homes(member.each, (*path, "<name>"), inside)
        if "items" in member.schema:
            yield from _homes(member.below(0), (*path, "[]"), inside)


def wanted(slot: Slot) -> str:
    """What belongs into a slot, in words."""
    if slot.chooser:
        return f"a mapping with `{slot.chooser}: …`, which is one of {', '.join(slot.tags())}"
    if examples := slot.schema.get("examples"):
        return f"a value such as {' or '.join(str(example) for example in examples[:2])}"
    if len(slot.members) > 1:
        return " or ".join(wanted(member) for member in slot.members)
    if values := slot.values:
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if slot.schema.get("format") == "date":
        return WORDS["date"]
    keys = f" such as {{{', '.join(f'{name}: …' for name in slot.required)}}}" if slot.required else ""
    return WORDS.get(slot.schema.get("type", ""), "a value") + keys
