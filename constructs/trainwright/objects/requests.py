"""What pods ask for together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from trainwright.objects.formats import amount, quantity


def requested(pods: Iterable[tuple[int, Mapping[str, Any]]], *fields: str) -> dict[str, str]:
    """The sum of what the containers of pods ask for, by resource.

    Args:
        pods: how many, and the spec of each of them; init containers do not count.
        fields: of ``resources``; of two that have a resource the first counts. Requests before limits where none is named.
    """
    amounts: dict[str, list[tuple[int, str]]] = {}
    for count, pod in pods:
        for container in pod["containers"]:
            resources = container.get("resources") or {}
            asked: dict[str, object] = {}
            for field in reversed(fields or ("requests", "limits")):
                asked |= resources.get(field) or {}
            for name, text in asked.items():
                amounts.setdefault(name, []).append((count, str(text)))
    return {name: _added(terms) for name, terms in amounts.items() if any(count for count, _ in terms)}


def _added(terms: Iterable[tuple[int, str]]) -> str:
    """The sum of quantities, in the suffixes of the first that is not zero (apimachinery, Quantity.Add)."""
    numbers = [(count * number, text) for count, text in terms if (number := amount(text)) and count]
    return quantity(sum((number for number, _ in numbers), start=Decimal()), numbers[0][1]) if numbers else "0"
