"""The string formats of custom resources that the API server checks (apiextensions-apiserver, apiserver/validation/formats.go).

What each one accepts is that of kube-openapi's strfmt, which is more generous than the RFCs in places. Quantities such as
``500m`` and ``8Gi`` are those of apimachinery, pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_CEILING, Decimal
from urllib.parse import urlsplit

from trainwright.objects.metadata import not_a_label, not_a_subdomain

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION = re.compile(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_SCALA_UNITS = "ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week"
_SCALA_DURATION = re.compile(rf"([0-9]+\s*({_SCALA_UNITS}|nanosecond|microsecond|millisecond|second|minute)s?\s*)+")
_EMAIL = re.compile(r"(.*<)?[^\s@<>]+@[^\s@<>]+>?")
_HOSTNAME = re.compile(r"[^\W_]([-]|[^\W_]){0,62}(\.[^\W_]([-]|[^\W_]){0,62})*(?<!-)")
_MAC = re.compile(r"([0-9a-fA-F]{2}([:-])([0-9a-fA-F]{2}\2){4,6}[0-9a-fA-F]{2}|([0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4})")


def _is_date(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    day, _, time = text.lower().partition("t")
    parts = _TIME.fullmatch(time)
    return _is_date(day) and parts is not None and parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def _is_uri(text: str) -> bool:
    """Go's url.ParseRequestURI: an absolute URI, or an absolute path."""
    try:
        return not re.search(r"[\x00-\x20\x7f]", text) and (text.startswith("/") or bool(urlsplit(text).scheme))
    except ValueError:
        return False


def _is_address(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return bool(parse(text))
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    return "/" in text and _is_address(lambda value: ipaddress.ip_network(value, strict=False))(text)


def _is_base64(text: str) -> bool:
    try:
        return bool(text) and base64.b64decode(text, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    return _matches(rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}-?{variant}-?[0-9a-f]{{12}}", re.IGNORECASE)


_ANY = "[0-9a-f]{4}"

FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None,
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(_ANY, _ANY),
    "uuid3": _uuid("3[0-9a-f]{3}", _ANY),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "ssn": _matches(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": lambda text: bool(_GO_DURATION.fullmatch(text) or _SCALA_DURATION.fullmatch(text)),
    "datetime": _is_datetime,
    "quantity": lambda text: amount(text) is not None,
    "k8sshortname": lambda text: not not_a_label(text),
    "k8slongname": lambda text: not not_a_subdomain(text),
}
"""Format, without its dashes -> whether a text has it."""

UNCHECKED = frozenset(("isbn", "isbn10", "isbn13", "creditcard", "rgbcolor"))
"""Formats that the API server checks and this module does not: a schema with one of them is reported."""

INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""Format of an integer -> the numbers it holds."""


def normal(name: str) -> str:
    """A format's name as the API server compares it: ``date-time`` is ``datetime``."""
    return name.replace("-", "")


_FORM = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?")
_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def amount(value: object) -> Decimal | None:
    """The number that a quantity stands for; None for any other value."""
    match = _FORM.fullmatch(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    return number * (_FACTORS[suffix] if suffix in _FACTORS else Decimal(f"1{suffix}"))


def quantity(number: Decimal, like: str) -> str:
    """A number as the API server writes it: whole, with the largest suffix of its kind.

    Args:
        number: from :func:`amount`.
        like: a quantity whose kind of suffixes it takes, ``Ki`` or ``k``.
    """
    base, ending = (1024, "i") if like.endswith("i") else (1000, "")
    if number != number.to_integral_value():
        return f"{(number * 1000).to_integral_value(ROUND_CEILING)}m"
    suffixes = [(f"{letter}{ending}", Decimal(base) ** power) for power, letter in enumerate("kMGTPE", start=1)]
    suffix, factor = next(((name, size) for name, size in reversed(suffixes) if number and not number % size), ("", Decimal(1)))
    return f"{int(number / factor)}{suffix.replace('ki', 'Ki')}"
