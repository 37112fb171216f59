"""YAML text as a stream of events, from libyaml where it is sure to agree with YAML 1.2, and from ruamel.yaml everywhere else.

libyaml is six times as fast, and reads YAML 1.1. The two versions cut lines at other characters, and differ in directives; a text
with any of these, and one that libyaml refuses, is read by ruamel.yaml, whose word on an error is the one that people see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_DIFFERENT = re.compile(
    r"^%|!|[|>][-+0-9]*[ #]|[|>][-+0-9]*$" "|[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]", re.MULTILINE
)
"""Directives, tags, block scalars, tabs, and what is a line break or not allowed in one of the two versions."""


def events_of(text: str) -> Iterator[Any]:
    """Events with ``start_mark`` and ``end_mark``; their classes have the same names and fields in both libraries.

    Raises:
        YAMLError: of ruamel.yaml; and, for some broken input, whatever its parser fails with.
    """
    quick = None if _DIFFERENT.search(text) else _quick(text)
    if quick is not None:
        yield from quick
        return
    from ruamel.yaml import YAML  # 25 ms to import, and hardly ever needed

    yield from YAML(typ="safe", pure=True).parse(text)


def _quick(text: str) -> list[Any] | None:
    """None where libyaml is not there, or does not read the text."""
    try:
        from yaml import CBaseLoader, YAMLError
    except ImportError:
        return None
    loader = CBaseLoader(text)
    events = []
    try:
        while (event := loader.get_event()) is not None:
            events.append(event)
    except (YAMLError, ValueError):
        return None
    finally:
        loader.dispose()
    return events
