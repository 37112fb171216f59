"""The functions that the API server adds to CEL (apiserver, pkg/cel/library): lists, regular expressions, URLs, addresses.

A rule with a function that is not here, such as arithmetic on quantities, cannot be evaluated, and is reported as such.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from trainwright.validate.cel import NOT_HERE
from trainwright.validate.formats import FORMATS

_UNLIKE_RE2 = re.compile(r"\\[zZAQEpPC]|\[\[:|\(\?(?![:P])|[*+?}]\+")
"""What Python's ``re`` reads otherwise than RE2, or not at all."""


def functions() -> list[Any]:
    """Declarations with implementations for :func:`cel.NewEnv`."""
    from cel_expr_python.cel import FunctionDecl, Overload, Type

    anything, texts = Type.List(Type.DYN), Type.List(Type.STRING)

    def of_list(name: str, implementation: Any, result: Any, *more: Any) -> Any:
        overload = Overload(f"list_{name}", result, [anything, *more], is_member=True, impl=implementation)
        return FunctionDecl(name, [overload])

    def of_text(name: str, implementation: Any, result: Any = Type.BOOL) -> Any:
        return FunctionDecl(name, [Overload(f"{name}_string", result, [Type.STRING], is_member=False, impl=implementation)])

    def in_text(name: str, result: Any, *overloads: tuple[Any, Any]) -> Any:
        made = [
            Overload(f"string_{name}_{len(more)}", result, [Type.STRING, *more], is_member=True, impl=implementation)
            for implementation, more in overloads
        ]
        return FunctionDecl(name, made)

    return [
        of_list("isSorted", lambda items: all(a <= b for a, b in pairwise(items)), Type.BOOL),
        of_list("sum", sum, Type.DYN),
        of_list("min", min, Type.DYN),
        of_list("max", max, Type.DYN),
        of_list("indexOf", lambda items, item: items.index(item) if item in items else -1, Type.INT, Type.DYN),
        of_list("lastIndexOf", _last_index, Type.INT, Type.DYN),
        in_text("find", Type.STRING, (_find, [Type.STRING])),
        in_text("findAll", texts, (_find_all, [Type.STRING]), (_find_all, [Type.STRING, Type.INT])),
        of_text("isURL", FORMATS["uri"]),
        of_text("isQuantity", FORMATS["quantity"]),
        of_text("isIP", lambda text: FORMATS["ipv4"](text) or FORMATS["ipv6"](text)),
        of_text("isCIDR", FORMATS["cidr"]),
    ]


def _last_index(items: list[Any], item: Any) -> int:
    return next((index for index in reversed(range(len(items))) if items[index] == item), -1)


def _find(text: str, pattern: str) -> str:
    match = _compiled(text, pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match[0] for match in _compiled(text, pattern).finditer(text)]
    return found if most < 0 else found[:most]


def _compiled(text: str, pattern: str) -> re.Pattern[str]:
    """The pattern for Python's ``re``, where both read it alike; an error, and so a report, where they do not."""
    if _UNLIKE_RE2.search(pattern) or ("$" in pattern and "\n" in text):
        raise ValueError(f"{NOT_HERE} how to search for {pattern} as RE2 does")
    return re.compile(pattern, re.ASCII)
