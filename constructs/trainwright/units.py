"""Quantities with units: durations, bytes and CPUs, as people write them and as Kubernetes keeps them.

Each type reads what a YAML file holds with ``parse``, prints itself so that ``parse(str(x)) == x``, is written to JSON as its
canonical text, and has a JSON Schema for editors. A refused value says what to write instead. Counts and plain values are here
too, as messages write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from trainwright_trainer.contract.base import MAX_INTEGER

GIB = 2**30
LONGEST_TEXT = 64
MOST_NAMED = 10
"""Runs, files or values that a message names; of the others it says how many there are."""


def counted(number: int, what: str) -> str:
    """``1 node``, ``1,024 nodes``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def some(texts: Iterable[str]) -> str:
    """``a, b``; of many the first ones, and how many more there are."""
    named = list(texts)
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def literal(value: object) -> str:
    """A value as it is written in YAML; of what YAML cannot hold, the type."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "a number beyond 2^53"  # Python refuses to print the longest ones
    if value is not None and not isinstance(value, str | int | float):
        return f"a value of type {type(value).__name__}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else str(value)


def in_quotes(value: float) -> str:
    """What to write where a number or a word of YAML was meant as text."""
    fix = f'write "{literal(value)}" in quotes'
    if re.fullmatch(r"[0-9]+\.[0-9]", literal(value)):  # YAML reads 1.30 as 1.3
        fix += f', or "{literal(value)}0" if that was meant'
    return fix


class UnitError(ValueError):
    """A text or number that is not the quantity it should be."""

    def __init__(self, message: str, fix: str) -> None:
        self.fix = fix
        super().__init__(message)


class _Quantity:
    """What the three types share: validation and serialisation by pydantic."""

    __slots__ = ()
    JSON_SCHEMA: ClassVar[JsonSchemaValue]

    @classmethod
    def parse(cls, value: object) -> Self:
        raise NotImplementedError

    @property
    def canonical(self) -> str:
        """The text that JSON and manifests hold."""
        return str(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        canonical = core_schema.plain_serializer_function_ser_schema(
            lambda value: value.canonical, return_schema=core_schema.str_schema()
        )
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=canonical)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(cls.JSON_SCHEMA)


_DURATION_UNITS = (("d", "d", 86_400), ("h", "h", 3_600), ("m", "min", 60), ("s", "s", 1))
"""Canonical unit, the unit as printed, and its seconds; longest first."""
_UNIT_SECONDS = {name: seconds for short, long, seconds in _DURATION_UNITS for name in (short, long)}
_DURATION_PART = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]*(min|[dhms])[ ]*", re.ASCII)
_DURATION_WORDS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "sec": "s", "min": "m", "hr": "h"}


@dataclass(frozen=True, slots=True, order=True)
class Duration(_Quantity):
    """A span of time in whole seconds, 1 s to 100 days, written ``30m``, ``1h30m`` or ``90s``.

    Raises:
        UnitError: a ``ValueError``, where the value is no such quantity, or out of that range.
    """

    seconds: int

    LONGEST: ClassVar[int] = 100 * 86_400
    JSON_SCHEMA: ClassVar[JsonSchemaValue] = {
        "type": "string",
        "pattern": r"^[0-9]+(\.[0-9]+)? *(d|h|m|min|s)( *[0-9]+(\.[0-9]+)? *(h|m|min|s))*$",
        "description": "A duration with its units: 90s, 30m, 1h30m, 2d.",
        "examples": ["30m", "1h30m", "90s"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= self.LONGEST:
            raise UnitError("the duration is out of range", "write a duration of at least 1s and at most 100d")

    @classmethod
    def parse(cls, value: object) -> Self:
        """A duration from its text; a bare number is refused, because its unit would be a guess."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise UnitError(f"{_shown(value)} has no unit", f"write {_shown(value)}s, {_shown(value)}m or {_shown(value)}h")
        if not isinstance(value, str):
            raise UnitError(f"{_shown(value)} is not a duration", "write a number and its unit, such as 90s, 30m or 1h30m")
        return cls(_seconds(value))

    @property
    def canonical(self) -> str:
        return "".join(f"{count}{short}" for count, short, _ in self._parts())

    def __str__(self) -> str:
        return " ".join(f"{count} {long}" for count, _, long in self._parts())

    def _parts(self) -> list[tuple[int, str, str]]:
        rest, parts = self.seconds, []
        for short, long, seconds in _DURATION_UNITS:
            count, rest = divmod(rest, seconds)
            if count:
                parts.append((count, short, long))
        return parts


def _seconds(text: str) -> int:
    """Whole seconds of a text such as ``1h30m``; units go from long to short, each once."""
    total, previous, position = 0, Duration.LONGEST, 0
    stripped = text.strip(" ")
    if len(stripped) > LONGEST_TEXT:
        raise UnitError("the duration is too long a text", "write a number and its unit, such as 90s, 30m or 1h30m")
    while position < len(stripped):
        match = _DURATION_PART.match(stripped, position)
        if match is None or _UNIT_SECONDS[match[3]] >= previous:
            raise UnitError(f"{_shown(text)} is not a duration", _duration_fix(stripped))
        previous, position = _UNIT_SECONDS[match[3]], match.end()
        whole, fraction = match[1], match[2] or ""
        seconds, rest = divmod(int(whole + fraction) * previous, 10 ** len(fraction))
        if rest:
            raise UnitError(f"{_shown(text)} is not a whole number of seconds", "write whole seconds, such as 90s")
        total += seconds
    if not stripped:
        raise UnitError("the duration is empty", "write a number and its unit, such as 90s, 30m or 1h30m")
    return total


def _duration_fix(text: str) -> str:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return f"write {text}s, {text}m or {text}h"
    words = re.fullmatch(r"([0-9]+) *([a-z]+)", text.lower())
    if words and (unit := _DURATION_WORDS.get(words[2].removesuffix("s"))):
        return f"write {words[1]}{unit}"
    if text.endswith("ms"):
        return "write whole seconds, such as 1s"
    return "write a number and its unit, from long to short: 90s, 30m, 1h30m, 2d"


_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BYTE_FACTORS = {suffix: 1024**n for n, suffix in enumerate(_BINARY)} | {suffix: 1000**n for n, suffix in enumerate(_DECIMAL)}
_NUMBER = re.compile(r"([0-9]+)(?:\.([0-9]+))?([A-Za-z]*)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Bytes(_Quantity):
    """A number of bytes, 1 to 2^53, written as a Kubernetes quantity (``256Gi``, ``1.5T``) or a plain number.

    It prints as the API server would keep it (apimachinery, ``resource.Quantity``): a whole number with the largest suffix that
    leaves it whole, binary unless a decimal one is shorter.

    Raises:
        UnitError: a ``ValueError``, where the value is no such quantity, or out of that range.
    """

    bytes: int

    LARGEST: ClassVar[int] = 2**53
    JSON_SCHEMA: ClassVar[JsonSchemaValue] = {
        "anyOf": [
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$"},
            {"type": "integer", "minimum": 1, "maximum": LARGEST},
        ],
        "description": "Bytes as a Kubernetes quantity: 256Gi (2^30), 1.5T (10^12), 512Mi, or a plain number of bytes.",
        "examples": ["256Gi", "512Mi"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.bytes <= self.LARGEST:
            raise UnitError("the number of bytes is out of range", "write at least 1 byte and at most 8Pi")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Bytes from a quantity's text or a whole number."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value)
        if isinstance(value, float) and 1 <= value <= cls.LARGEST and value.is_integer():
            raise UnitError(f"{_shown(value)} is not a whole number", f"write {cls(int(value))}")
        if not isinstance(value, str):
            raise UnitError(f"{_shown(value)} is not a number of bytes", "write a quantity such as 512Mi or 256Gi")
        match = _NUMBER.fullmatch(value) if len(value) <= LONGEST_TEXT else None
        if match is None or match[3] not in _BYTE_FACTORS:
            raise UnitError(f"{_shown(value)} is not a number of bytes", _bytes_fix(value))
        count, rest = _scaled(match, _BYTE_FACTORS[match[3]])
        if rest:
            raise UnitError(f"{value} is not a whole number of bytes", _whole_bytes_fix(count))
        return cls(count)

    def __str__(self) -> str:
        binary, decimal = _largest(self.bytes, 1024, _BINARY), _largest(self.bytes, 1000, _DECIMAL)
        return binary if _digits(binary) <= _digits(decimal) else decimal


def _bytes_fix(text: str) -> str:
    match = _NUMBER.fullmatch(text.replace(" ", "")) if len(text) <= LONGEST_TEXT else None
    if match is None:
        return "write a whole number with a suffix, such as 512Mi or 256Gi"
    number, unit = text.replace(" ", "").removesuffix(match[3]), match[3].lower()
    if unit == "m":
        return f"write {number}Mi (m means thousandths)" if match[3] == "m" else f"write {number}M"
    letter = unit[:1].upper()
    if letter in "KMGTPE" and unit[1:] in ("", "i", "b", "ib") and letter:
        decimal = "k" if letter == "K" else letter
        return f"write {number}{letter}i" if "i" in unit else f"write {number}{letter}i, or {number}{decimal}"
    return f"write a quantity such as {number}Mi or {number}Gi"


def _whole_bytes_fix(count: int) -> str:
    for exponent, suffix in reversed(tuple(enumerate(_BINARY))):
        if count >= 10 * 1024**exponent:
            return f"write {round(count / 1024**exponent)}{suffix}"
    return "write a whole number of bytes"


_CPU_FACTORS = {"m": 1, "": 1000, "k": 1_000_000}


@dataclass(frozen=True, slots=True, order=True)
class Cpu(_Quantity):
    """CPU time in millicores, 1m to 100k cores, written ``500m``, ``2``, ``1.5`` or ``4``.

    It prints as the API server would keep it: ``1500m``, ``2``, ``1k``.

    Raises:
        UnitError: a ``ValueError``, where the value is no such quantity, or out of that range.
    """

    millicores: int

    LARGEST: ClassVar[int] = 100_000_000
    JSON_SCHEMA: ClassVar[JsonSchemaValue] = {
        "anyOf": [
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k)?$"},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 100_000},
        ],
        "description": "CPUs as a Kubernetes quantity: 4, 1.5, or 500m (thousandths).",
        "examples": [4, "500m"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.millicores <= self.LARGEST:
            raise UnitError("the number of CPUs is out of range", "write at least 1m and at most 100k")

    @classmethod
    def parse(cls, value: object) -> Self:
        """CPUs from a quantity's text or a number of cores."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value * 1000)
        text = repr(value) if isinstance(value, float) else value
        if not isinstance(text, str):
            raise UnitError(f"{_shown(value)} is not a number of CPUs", "write cores, such as 4, or thousandths, such as 500m")
        match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_TEXT else None
        if match is None or match[3] not in _CPU_FACTORS:
            raise UnitError(f"{_shown(value)} is not a number of CPUs", "write cores, such as 4, or thousandths, such as 500m")
        millicores, rest = _scaled(match, _CPU_FACTORS[match[3]])
        if rest:
            raise UnitError(f"{text} is finer than a thousandth of a CPU", f"write {max(1, millicores)}m")
        return cls(millicores)

    def __str__(self) -> str:
        return f"{self.millicores}m" if self.millicores % 1000 else _largest(self.millicores // 1000, 1000, _DECIMAL)


def _scaled(match: re.Match[str], factor: int) -> tuple[int, int]:
    """The number times the factor: its whole part, and a rest that is 0 where it is exact."""
    fraction = match[2] or ""
    parts = 10 ** len(fraction)
    number = int(match[1] + fraction) * factor
    return number // parts, number % parts


def _largest(count: int, base: int, suffixes: tuple[str, ...]) -> str:
    exponent = 0
    while count % base == 0 and exponent < len(suffixes) - 1:
        count, exponent = count // base, exponent + 1
    return f"{count}{suffixes[exponent]}"


def _digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def _shown(value: object) -> str:
    """A refused value, short enough for a message."""
    text = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else literal(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

