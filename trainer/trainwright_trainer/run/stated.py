"""What a run states under ``config``, as the script's own dataclass or pydantic model."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeVar, Union

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC_ENV = "TRAINWRIGHT_SPEC"
CONFIG_ENV = "TRAINWRIGHT_CONFIG"
"""Environment variable with the path of a JSON file that stands for it where there is no run."""
T = TypeVar("T")


class ConfigError(ValueError):
    """What the run states is not what the script understands."""


def stated(environment: Mapping[str, str]) -> dict[str, Any]:
    """As it is in the run's specification, or in the file that ``TRAINWRIGHT_CONFIG`` names; empty where nobody says anything.

    Raises :class:`ConfigError` where that file cannot be read.
    """
    if CONFIG_ENV in environment:
        found = _read(environment[CONFIG_ENV])
    elif SPEC_ENV in environment:
        found = _read(environment[SPEC_ENV])["work"].get("config") or {}
    else:
        found = {}
    return found


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no JSON object")
    return found


def as_kind(kind: type[T], found: Mapping[str, Any], where: str = "config") -> T:
    """An instance of a dataclass or of a pydantic model. Raises :class:`ConfigError` for what does not fit."""
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        try:
            model: T = validate(found)
            return model
        except ValueError as error:  # pydantic's ValidationError is one
            raise ConfigError(f"config: {error}") from None
    import dataclasses  # it takes 10 ms to import

    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind!r} is neither a dataclass nor a pydantic model")
    import typing

    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in found:
        if name not in fields:
            raise ConfigError(f"{where}.{name} is not one of {kind.__name__}'s fields{_meant(name, fields)}")
    for name, field in fields.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in found and not optional:
            raise ConfigError(f"{where}.{name} is missing, and {kind.__name__} has no default for it")
    return kind(**{name: _converted(hints[name], value, f"{where}.{name}") for name, value in found.items()})


def _meant(name: str, fields: Mapping[str, object]) -> str:
    import difflib

    near = difflib.get_close_matches(name, fields, n=1)
    return f"; did you mean {near[0]}?" if near else f": {', '.join(fields)}"


def _converted(hint: Any, value: Any, where: str) -> Any:
    """A value of JSON as a field's type has it."""
    import dataclasses
    import enum
    import typing

    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return value
    if origin is Union or type(hint).__name__ == "UnionType":
        return _first_that_fits(arguments, value, where)
    if origin is typing.Literal:
        return value if value in arguments else _refuse(value, " or ".join(map(repr, arguments)), where)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "model_validate"):
        return as_kind(hint, value, where) if isinstance(value, dict) else _refuse(value, "a mapping", where)
    if origin in (list, tuple, set, frozenset) and isinstance(value, list):
        return _sequence(origin, arguments, value, where)
    if origin is dict and isinstance(value, dict):
        return {name: _converted(arguments[1], one, f"{where}.{name}") for name, one in value.items()}
    kind = origin or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    if isinstance(value, str) and isinstance(kind, type) and issubclass(kind, (os.PathLike, enum.Enum)):
        make: Any = kind
        try:
            return make(value)
        except ValueError:
            pass
    return value if not isinstance(kind, type) else _refuse(value, getattr(kind, "__name__", str(kind)), where)


def _first_that_fits(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    refusals = []
    for kind in sorted(kinds, key=lambda kind: kind is not type(value)):
        if kind is type(None):
            if value is None:
                return None
            continue
        try:
            return _converted(kind, value, where)
        except ConfigError as error:
            refusals.append(error)
    raise refusals[0]


def _sequence(kind: Any, arguments: tuple[Any, ...], value: list[Any], where: str) -> Any:
    if kind is tuple and arguments[-1:] != (Ellipsis,):
        if len(arguments) != len(value):
            _refuse(value, f"{len(arguments)} values", where)
        kinds = arguments
    else:
        kinds = (arguments[0] if arguments else Any,) * len(value)
    return kind(_converted(one, part, f"{where}[{index}]") for index, (one, part) in enumerate(zip(kinds, value)))  # noqa: B905 - 3.9


def _refuse(value: Any, expected: str, where: str) -> Any:
    raise ConfigError(f"{where} is {value!r}, and the script wants {expected}")
