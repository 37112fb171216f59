"""The settings that every model of the compiler shares, and the name types of Kubernetes.

Modules of models do without ``from __future__ import annotations``: pydantic would compile each annotation from text, which is a
tenth of the time that a command takes to start. For the same reason a validator is built when it is first used, and
defaults are constructed without one.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema
from pydantic_core.core_schema import tagged_union_schema

from trainwright_trainer.contract.base import Contract


class Model(Contract):
    """A value of the compiler. What it shares with the trainer is a :class:`Contract` alone."""


Fact = str | int | float | bool
"""A plain value that a record holds on a line of its own."""


def quantity_field(default: Any) -> Any:
    """A field whose default is a quantity, which schemas show as people write it; pydantic would show the parts of an object."""
    return Field(default=default, json_schema_extra={"default": default.canonical})


def type_of(info: FieldInfo) -> Any:
    """The type of a field with its bounds, for a field of another model."""
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


class ByKeys:
    """Chooses between the members of a union of models by the keys of a mapping, misspelt ones too: one whose required keys are
    all there, and then the one with most of the keys.

    So a wrong key is an error of the member that was meant, not of each. One member may be no model: it takes what is no mapping.
    """

    def __init__(self, other: str = "") -> None:
        """``other`` is what places of errors call the member that is no model."""
        self._other = other

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        members = get_args(source)
        models = [one for one in members if isinstance(one, type) and issubclass(one, Model)]
        fields = {one.__name__: one.model_fields.keys() for one in models}
        required = {one.__name__: {key for key, field in one.model_fields.items() if field.is_required()} for one in models}
        every = dict.fromkeys(name for names in fields.values() for name in names)

        def tag(value: object) -> str | None:
            if isinstance(value, Model):
                return type(value).__name__
            if not isinstance(value, Mapping):
                return self._other or None
            keys = {key if key in every else closest(str(key), every) for key in value}
            counts = {name: len(keys & names) for name, names in fields.items()}
            best = max(counts, key=lambda name: (required[name] <= keys, counts[name]))  # what is whole was meant
            return best if counts[best] else None

        names = (one.__name__ if one.__name__ in fields else self._other for one in members)
        return tagged_union_schema({name: handler.generate_schema(one) for name, one in zip(names, members, strict=True)}, tag)


def file_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a model in a file: there the key that chooses between kinds is required. In Python the class says it."""
    schema = model.model_json_schema()
    _require_tags(schema, schema.get("$defs", {}))
    return schema


def _require_tags(node: Any, definitions: Mapping[str, Any]) -> None:
    if isinstance(node, list):
        for below in node:
            _require_tags(below, definitions)
    if not isinstance(node, dict):
        return
    for below in node.values():
        _require_tags(below, definitions)
    chooser = node.get("discriminator")
    if not isinstance(chooser, dict) or "mapping" not in chooser:
        return
    key = chooser["propertyName"]
    for member in chooser["mapping"].values():
        kind = definitions[member.rpartition("/")[2]]
        kind["properties"][key].pop("default", None)
        stated = {*kind.get("required", ()), key}
        kind["required"] = [name for name in kind["properties"] if name in stated]


def closest(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The one of the known words that a person may have meant, at least so much alike, from 0 to 1; nodesPerPod and nodes-per-pod
    are nodes_per_pod.
    """
    from difflib import get_close_matches  # for what is wrong anyway

    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).replace("-", "_").lower()
    candidates = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(snake[:100], candidates, n=1, cutoff=least)
    return candidates[match[0]] if match else None


def changed_fields(part: BaseModel) -> dict[str, Any]:
    """Fields that hold something else than their default, from whatever source."""
    return {name: value for name, default in _defaults(type(part)).items() if (value := getattr(part, name)) != default}


def default_of(model: type[BaseModel], name: str) -> Any:
    """What a field holds where nothing is said."""
    return _defaults(model)[name]


@cache
def _defaults(model: type[BaseModel]) -> Mapping[str, Any]:
    """Field -> its default, which pydantic would copy each time."""
    return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}


DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)]
"""A DNS-1035 label: lower case, digits and dashes, starting with a letter."""

DnsSubdomain = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", min_length=1, max_length=253)
]
"""A DNS-1123 subdomain, the rule for names of Secrets, claims and service accounts."""

_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

QualifiedName = Annotated[str, Field(pattern=rf"^({_PREFIX})?{_NAME}$", max_length=253)]
"""A label key or an extended resource name: an optional DNS prefix and a name of at most 63 characters."""

ExtendedResource = Annotated[str, Field(pattern=rf"^{_PREFIX}{_NAME}$", max_length=253)]
"""Name of a resource that a device plugin offers: always with a prefix, so it is never ``cpu`` or ``memory``."""

LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=253)]
"""An environment variable's name, as shells and programs accept it."""

NodePath = Annotated[str, Field(pattern=r"^/([^:\x00]*[^:/\x00])?$", max_length=1024)]
"""An absolute path of a node; `/` is all of its files."""
