"""What labels an object must have to be meant: by selectors of pods, and by terms of an affinity to nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import items, mapping, text


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector means an object with these labels; an empty one means every object."""
    wanted = mapping(selector, "/matchLabels").items()
    return wanted <= labels.items() and all(meets(one, labels) for _, one in items(selector, "/matchExpressions"))


def meets(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether it is true of these labels (apimachinery, pkg/labels/selector.go); what the API server refuses is."""
    key, operator, values = text(expression, "/key"), text(expression, "/operator"), expression.get("values") or []
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if values and _is_whole(str(values[0])):
            if value is None or not _is_whole(value):
                return False
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return True


def _is_whole(value: str) -> bool:
    return value.removeprefix("-").isdecimal()
