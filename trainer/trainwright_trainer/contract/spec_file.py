"""The run's specification as this pod found it: the file, its digest, and clear sentences where it is invalid."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE
from trainwright_trainer.contract.spec import API_VERSION, RunSpec

MOST_PROBLEMS = 5
"""Problems told at once; a termination message holds 4 KiB."""


@dataclass(frozen=True, slots=True)
class Specification:
    path: Path
    sha256: str
    """Of the file's bytes: pods that read different files must not train together."""
    spec: RunSpec


def specification_path(environ: Mapping[str, str]) -> Path:
    """Where the compiler says the file is, or its usual place."""
    return Path(environ.get(SPEC_ENV) or Path(SPEC_DIRECTORY) / SPEC_FILE)


def read_specification(path: Path) -> Specification:
    """Read and check the file. Raises :class:`PodError` with INVALID_SPEC and a sentence that says what to change."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _invalid(f"cannot read {path}: {error.strerror}; mount the run's ConfigMap there, or set {SPEC_ENV}") from None
    return Specification(path.absolute(), hashlib.sha256(data).hexdigest(), parse_specification(data, path))


def parse_specification(data: bytes, path: str | Path) -> RunSpec:
    """What a file says. Raises as :func:`read_specification` does."""
    try:
        document: object = from_json(data)
    except ValueError as error:
        raise _invalid(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _invalid(f"{path} holds a {type(document).__name__}; it must be a JSON object with the keys of {API_VERSION}")
    if document.get("api_version", API_VERSION) != API_VERSION:
        raise _invalid(
            f"{path}: api_version is {document['api_version']!r} and this trainer reads {API_VERSION!r}; "
            "use an image whose trainer knows that version"
        )
    try:
        return RunSpec.model_validate_json(data)
    except ValidationError as error:
        raise _invalid(f"{path}: {'; '.join(_problems(error, document))}") from None


def _invalid(message: str) -> PodError:
    return PodError(ExitCode.INVALID_SPEC, "InvalidSpec", message)


def _problems(error: ValidationError, document: object) -> Iterator[str]:
    details = error.errors(include_url=False)
    for problem in details[:MOST_PROBLEMS]:
        yield _sentence(problem, document)
    if len(details) > MOST_PROBLEMS:
        yield f"and {len(details) - MOST_PROBLEMS} more"


def _sentence(problem: ErrorDetails, document: object) -> str:
    key = _key(problem["loc"], document)
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(problem["loc"][-1]), sorted(_known_keys(Contract)), n=1)
        return f"{key} is not a known key; " + (f"did you mean {close[0]}?" if close else "remove it")
    if problem["type"] == "missing":
        return f"{key} is missing; add it"
    if problem["type"] == "value_error":
        text = str(problem["ctx"]["error"]) if "ctx" in problem else problem["msg"]
        return f"{key}: {text}" if key else text
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        context = problem["ctx"]
        chooser, allowed = context["discriminator"].strip("'"), context.get("expected_tags")
        if not allowed:
            return f"{key} has no {chooser}; add it"
        return f"{key}.{chooser} is {context['tag']!r}; it must be one of {allowed}"
    value = problem["input"]
    found = f" (it is {json.dumps(value, default=str)[:80]})" if not isinstance(value, dict | list) else ""
    text = problem["msg"].replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    wanted = _TYPES.get(problem["type"]) or text.removeprefix("Input should be ")
    return f"{key} must be {wanted}{found}" if wanted != text else f"{key}: {text[0].lower()}{text[1:]}{found}"


_TYPES = {
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "float_parsing": "a number", "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "text",
    "list_type": "a list", "tuple_type": "a list", "dict_type": "an object", "model_type": "an object",
    "model_attributes_type": "an object", "finite_number": "a finite number",
}
"""Kind of a pydantic error -> what is wanted."""


def _key(location: tuple[int | str, ...], document: object) -> str:
    """The key as the file spells it: pydantic's path also names the variant it tried, which is in no file."""
    parts, node = list[str](), document
    for position, part in enumerate(location):
        try:
            node = node[part]  # type: ignore[index]
        except (TypeError, LookupError):
            if position < len(location) - 1:
                continue
        parts.append(str(part))
    return ".".join(parts)


def _known_keys(model: type[Contract]) -> set[str]:
    keys: set[str] = set()
    for child in model.__subclasses__():
        fields: Mapping[str, Any] = child.model_fields
        keys |= set(fields) | _known_keys(child)
    return keys
