"""Plain scalars by the core schema of YAML 1.2 (yaml.org/spec/1.2.2, section 10.3.2), and what of them JSON cannot hold."""

from __future__ import annotations

import math
import re

from trainwright_trainer.contract.base import MAX_INTEGER

Scalar = str | int | float | bool | None

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_FIRST_OF_A_NUMBER = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400
"""Digits: enough for every float written out, and short of the length at which Python refuses to read an integer."""


class ScalarError(ValueError):
    """A scalar that has a type but no value that can be passed on."""

    def __init__(self, message: str, fix: str) -> None:
        self.fix = fix
        super().__init__(message)


def written_scalar(text: str) -> Scalar:
    """The value of a plain scalar in a file that a person writes, who may have meant octal digits as kubectl reads them.

    Raises:
        ScalarError: as ``read_scalar``, and for a whole number with zeros in front.
    """
    if _LEADING_ZERO.fullmatch(text):
        shown, octal = _start(text), "256 or 0o400 for the permissions 0400"
        fix = f'write "{shown}" in quotes where text is asked for, as in `mode`; else without zeros in front, as {octal}'
        raise ScalarError(f"{shown} is decimal in YAML 1.2, and octal to kubectl and in YAML 1.1", fix)
    return read_scalar(text)


def read_scalar(text: str) -> Scalar:
    """The value of a plain (unquoted) scalar. ``yes``, ``on``, dates and ``1:30`` are text; ``2e-5`` and ``0o17`` are numbers.

    Raises:
        ScalarError: for .nan, .inf, numbers too large for a float, and integers above 2^53.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in _FIRST_OF_A_NUMBER:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ScalarError(f"{text} is not a finite number", "write a finite number")
    if _INTEGER.fullmatch(text):
        return _integer(text, 10)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return _integer(text, 0)
    if _FLOAT.fullmatch(text):
        return _float(text)
    return text


def _integer(text: str, base: int) -> int:
    if len(text) > _LONGEST_NUMBER or abs(number := int(text, base)) > MAX_INTEGER:
        fix = "write a smaller number, or put it in quotes if it is text"
        raise ScalarError(f"{_start(text)} is larger than 2^53, which JSON readers round", fix)
    return number


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ScalarError(f"{_start(text)} is too large for a number", "write a finite number")
    return number


def _start(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
