"""From what a person wrote to a validated model, with every error as a finding on its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainwright.findings import CompileError, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NO_DEFAULTS, Defaulted, Locator, Positions, dotted, pointer_to
from trainwright.reading.document import Document
from trainwright_trainer.contract.base import MAX_INTEGER

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], document: Document) -> M:
    """The model that a document describes.

    The document counts as JSON and is read strictly: "4" is no number, 1 is not true, and a list may fill a tuple.

    Raises:
        CompileError: with a TW105, TW106 or TW107 for each thing that does not fit, in the order of the lines.
    """
    try:
        return model.model_validate_json(json.dumps(document.data, allow_nan=False), strict=True)
    except ValidationError as error:
        raise refused(error, model, document.data, document.where) from error


def validate_data(
    model: type[M], data: M | Mapping[str, Any], file: str | None, positions: Positions, defaulted: Defaulted = NO_DEFAULTS
) -> M:
    """The model that Python values describe, models among them; findings lie where the positions, or those of the defaults, say.

    Models are validated again, since not all that makes one validates.

    Raises:
        CompileError: as :func:`validate`.
    """
    where = Locator(file, positions, defaulted=defaulted).run
    plain = dict(data) if isinstance(data, Mapping) else data
    if keys := next(_inexact(plain), ()):
        place = where(pointer_to(keys))
        message = f"`{dotted(keys)}` is a number beyond 2^53, which JSON readers round"
        raise CompileError([found("TW107", place, message, "write a smaller number, or text")])
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise refused(error, model, data, where) from error
    except UnicodeEncodeError as error:  # pydantic cannot say it
        fix = r"write the character itself, or \U and its code point"
        raise CompileError([found("TW107", where(), "text holds half a surrogate pair", fix)]) from error


def _inexact(data: object) -> Iterator[tuple[str | int, ...]]:
    """Where integers are that JSON does not carry. They are found first: pydantic cannot print the longest ones."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    seen: set[int] = set()
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            yield keys
        if isinstance(value, BaseModel):
            value = vars(value)
        if isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            below = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [((*keys, key if isinstance(key, int) else str(key)), item) for key, item in below]


def refused(error: ValidationError, model: type[BaseModel] | None, data: object, where: Callable[[str], Where]) -> CompileError:
    """The error to raise for what pydantic refuses; arguments as :func:`~trainwright.reading.errors.as_findings`."""
    from trainwright.reading.errors import as_findings  # most commands never need the words

    return CompileError(as_findings(error, model, data, where))
