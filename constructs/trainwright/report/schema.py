"""JSON Schema of a model, with the text under each field as its description."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from trainwright.model import file_schema
from trainwright.run import Run
from trainwright.run.defaults import OWN


def described_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema that an editor completes and checks keys with.

    Descriptions are read from the sources only here: pydantic would read them whenever a model is loaded.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **file_schema(model)}
    models = {found.__name__: found for found in _models_in(model)}
    for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
        if name in models:
            texts = _field_texts(models[name])
            for field, described in part.get("properties", {}).items():
                text = texts.get(field, texts.get(f"{field}_seconds"))  # as the contract calls what a run writes with a unit
                described.update({"description": text} if text else {})
    _ask_the_chooser(schema)
    return schema


def file_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The same for a file of a project. An editor knows no other files, so it does not miss what defaults may say of a run."""
    schema = described_schema(model)
    if model is Run:
        schema["required"] = [field for field in schema["required"] if field in OWN]
    return schema


def _ask_the_chooser(node: Any) -> None:
    """Write each tagged union as: a key chooses, and then one member holds.

    ``discriminator`` is a word of OpenAPI, which JSON Schema does not know. With ``oneOf`` alone a validator says of a misspelt
    key that no member fits, and cannot say which key is wrong.
    """
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _ask_the_chooser(below)
    if not isinstance(node, dict) or not {"discriminator", "oneOf"} <= node.keys():
        return
    key, mapping = node["discriminator"]["propertyName"], node["discriminator"]["mapping"]
    del node["discriminator"], node["oneOf"]
    node |= {"type": "object", "properties": {key: {"enum": list(mapping)}}, "required": [key]}
    node["allOf"] = [
        {
            "if": {"properties": {key: {"enum": [tag for tag, other in mapping.items() if other == member]}}, "required": [key]},
            "then": {"$ref": member},
        }
        for member in dict.fromkeys(mapping.values())
    ]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The model, and every model that its fields can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models_in(field.annotation)
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Field -> the string below it in the class, or in the class that it comes from."""
    texts: dict[str, str] = {}
    for base in reversed((*model.__mro__, *getattr(model, "texts_of", model).__mro__)):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _own_texts(base)
    return texts


def _own_texts(model: type[BaseModel]) -> Mapping[str, str]:
    source = inspect.getsourcefile(model)
    return _texts_in(source).get(model.__name__, {}) if source else {}


@cache
def _texts_in(source: str) -> Mapping[str, Mapping[str, str]]:
    """Class -> field -> the string below it, of the classes of one module."""
    classes = (node for node in ast.parse(Path(source).read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    return {
        each.name: {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in zip(each.body, each.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        }
        for each in classes
    }
