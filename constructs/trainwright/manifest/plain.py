"""What a manifest may hold so that JSON, cdk8s and every YAML reader see the same value.

A manifest reaches ``dist/`` through JSON and the ``yaml`` package of npm, and is read by Kubernetes, by people's tools and by us.
Some values do not survive that: NaN ends the jsii kernel, integers above 2**53 are rounded, a null inside a mapping is dropped
and one in a list is refused by the API, and a few strings are written in a form that readers disagree on, or are damaged. They
are named here, before anything is written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache

from trainwright.findings.locate import escape

LARGEST_INTEGER = 2**53
"""JavaScript has doubles only; above this, whole numbers are rounded."""

_NEVER_A_BLOCK = re.compile(r"\n[\t ]+\Z|[\x00-\x08\x0b-\x1f]")
"""Text of several lines that cdk8s puts in double quotes: its last line is blank, or it has such characters."""

_SHORTEST_FOLDED = 40
"""Length of text as JSON, with its quotes, from which on the lines of quoted text are written as lines."""

_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
"""Left unescaped by cdk8s, and not legal in YAML or folded into a space by readers of YAML 1.1. Surrogates cannot be encoded."""

_MISTAKEN = re.compile(r"=|<<|[-+]?0o[0-7]+|[-+]_+")
"""Written without quotes, and read as a special key (YAML 1.1), as an octal number (YAML 1.2), or refused (ruamel.yaml)."""

_BLOCK_TAB = re.compile(r"[ \n]*\t[\s\S]*\n|[ \n]*\n[ \n]*\t")
"""Text of several lines becomes a block, and a block's first line may not start with a tab (libyaml, Kubernetes' reader)."""


def problems(value: object, pointer: str = "") -> Iterator[tuple[str, str]]:
    """JSON pointer and reason of each value in a manifest that would not arrive unchanged."""
    if not _arrives(value):
        yield from _walk(value, pointer)


def _arrives(value: object) -> bool:
    """Whether everything arrives unchanged: the fast path, since nearly every manifest does."""
    kind = type(value)
    if kind is str:
        return _text_problem(value) is None
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or _key_problem(key) is not None or item is None or not _arrives(item):
                return False
        return True
    if kind is list:
        return all(map(_arrives, value))  # type: ignore[call-overload]
    return kind is bool or (kind in (int, float) and _scalar_problem(value) is None)


def _walk(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    # Exact types: jsii turns subclasses, such as the members of an Enum, into references to objects of its own.
    if type(value) is dict:
        yield from _mapping_problems(value, pointer)
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _walk(item, f"{pointer}/{index}")
    elif type(value) in (str, int, float):
        if reason := _scalar_problem(value):
            yield pointer, reason
    elif value is None:
        yield pointer, "is null, which no list of the API holds: remove the item"
    elif type(value) is not bool:
        yield pointer, f"is a {type(value).__name__}; use only dict, list, str, int, float and bool"


def _mapping_problems(value: dict[object, object], pointer: str) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        if type(key) is not str:
            yield pointer, f"has the key {key!r}, which is not a string"
            continue
        below = f"{pointer}/{escape(key)}"
        if reason := _key_problem(key):
            yield below, reason
        elif item is None:
            yield below, "is null, and a key without a value is left out on the way: remove the key"
        else:
            yield from _walk(item, below)


@lru_cache(maxsize=4096)
def _key_problem(key: str) -> str | None:
    # jsii reads mappings with its own marker keys as references, and JavaScript takes __proto__ for the prototype.
    return f"has the reserved key {key!r}" if key.startswith("$jsii.") or key == "__proto__" else _text_problem(key)


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON does not have"
    if isinstance(value, int | float) and abs(value) > LARGEST_INTEGER:
        return "is above 2**53 and would be rounded"
    return None


@lru_cache(maxsize=4096)
def _text_problem(text: str) -> str | None:
    if found := _CONTROL.search(text):
        return f"holds the character {found.group()!a}, which YAML readers change or refuse"
    if _MISTAKEN.fullmatch(text):
        return f"is the text {text!r}, which YAML readers take for something else"
    if "\0" in text:
        return "holds the character NUL, which no argument, variable or path can hold"
    if _is_damaged(text):
        return "has a line of one blank, into which cdk8s would write a backslash: remove the blanks of empty lines"
    if "\n" not in text and "\t" in text:
        return "holds a tab in text of one line, which some YAML readers refuse: use a space, or several lines"
    if "\n" in text and (_BLOCK_TAB.match(text) or (text.strip() == "" and text.strip("\n") != "")):
        return "starts with a tab or holds nothing but blanks, in text of several lines, which YAML readers change or refuse"
    return None


def _is_damaged(text: str) -> bool:
    """Whether cdk8s writes another text: it escapes a line of one blank twice in text that it quotes and folds.

    Source: ``doubleQuotedString`` of yaml 2.9.1 (stringify/stringifyString.js), which cdk8s brings.
    """
    return (
        "\n \n" in text
        and _NEVER_A_BLOCK.search(text) is not None
        and len(json.dumps(text, ensure_ascii=False).encode("utf-16-le")) // 2 >= _SHORTEST_FOLDED
    )
