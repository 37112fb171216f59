"""Amounts as Kubernetes writes them, such as ``500m`` and ``8Gi`` (apimachinery, pkg/api/resource/quantity.go)."""

from __future__ import annotations

import re
from decimal import Decimal

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
    """The number that a quantity stands for; None for what is none."""
    match = _FORM.fullmatch(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    return number * (_FACTORS[suffix] if suffix in _FACTORS else Decimal(f"1{suffix}"))
