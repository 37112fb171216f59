"""What a parser tells of a YAML 1.2 text: the events of its one value, or why there is none.

libyaml is twenty times as fast as ruamel.yaml, and reads an older YAML. So it is asked for what is alike in both versions, and
ruamel.yaml for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """A place in a text, from 0, as parsers count."""

    line: int
    column: int


class RefusedError(Exception):
    """A mistake after which nothing more can be said of a text: code, mark, message and fix of a finding."""


class UnsureError(Exception):
    """libyaml does not read a text as YAML 1.2, or might read something else."""


_STEPS = {"Scalar": 0, "SequenceStart": 1, "MappingStart": 1, "SequenceEnd": -1, "MappingEnd": -1}
"""An event of a value -> by how much it changes the depth."""


def kind_of(event: Any) -> str:
    """The classes of both libraries have the same names: ``ScalarEvent``, ``MappingStartEvent``."""
    return type(event).__name__.removesuffix("Event")


def nodes_in(events: Iterator[Any]) -> Iterator[Any]:
    """The events of the one value in a file; in place of an alias those of the value that it names.

    Raises:
        RefusedError: for an alias of nothing, or of what it is in; for a second document, and for one in another version of YAML.
    """
    told: list[Any] = []
    anchors: dict[str, int] = {}
    for event in events:
        kind = kind_of(event)
        if kind == "Alias":
            again = _named(event, told, anchors)
            told += again
            yield from again
        elif kind in _STEPS:
            if getattr(event, "anchor", None) is not None:
                anchors[event.anchor] = len(told)
            told.append(event)
            yield event
        elif kind == "DocumentStart" and told:
            fix = "write one document in a file: remove the line ---"
            raise RefusedError("TW104", event.start_mark, "a second document begins here", fix)
        elif kind == "DocumentStart" and event.version not in (None, (1, 2)):
            message = "the file asks for another version of YAML than 1.2"
            raise RefusedError("TW104", event.start_mark, message, "remove the %YAML line")


def _named(alias: Any, told: list[Any], anchors: dict[str, int]) -> list[Any]:
    """The events of the value that an alias names."""
    start = anchors.get(alias.anchor)
    if start is None:
        fix = "write the value out, or in quotes if it begins with *"
        raise RefusedError("TW102", alias.start_mark, f"alias *{alias.anchor} has no anchor before it", fix)
    depth = 0
    for end in range(start, len(told)):
        depth += _STEPS[kind_of(told[end])]
        if depth == 0:
            return told[start:end + 1]
    message = "an alias is inside the value that it names"
    raise RefusedError("TW104", told[start].start_mark, message, "write the value out")


_DIFFERENT = re.compile(
    r"^%|!|[|>][-+0-9]*[ #]|[|>][-+0-9]*$" "|[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]", re.MULTILINE
)
"""Directives, tags, block scalars, tabs, and what is a line break or not allowed in one of the two versions."""


def quick_events(text: str) -> Iterator[Any]:
    """libyaml's events. It takes a time that grows with the square of the depth, so a reader stops where it is too deep.

    Raises:
        UnsureError: where ruamel.yaml has to be asked from the beginning.
        RefusedError: where that would say the same.
    """
    if _DIFFERENT.search(text):
        raise UnsureError
    try:
        from yaml import CBaseLoader, YAMLError
    except ImportError as error:
        raise UnsureError from error
    loader = CBaseLoader(text)
    try:
        while (event := loader.get_event()) is not None:
            yield event
    except (YAMLError, ValueError) as error:
        if getattr(error, "problem", None) == "found unexpected end of stream":
            raise _refusal(error, text, None) from error  # ruamel.yaml takes seconds to find a quote without its end
        raise UnsureError from error
    finally:
        loader.dispose()


def careful_events(text: str) -> Iterator[Any]:
    """ruamel.yaml's events, of YAML 1.2; they have the names and fields of libyaml's.

    Raises:
        RefusedError: for what is none.
    """
    from ruamel.yaml import YAML  # 25 ms to import, and hardly ever needed

    event = None
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            yield event
    except Exception as error:  # it fails itself on some broken input, \Uffffffff among it
        raise _refusal(error, text, event) from error


def _refusal(error: Exception, text: str, last: Any) -> RefusedError:
    """What a parser says is wrong with a text, in plain words."""
    if mark := getattr(error, "problem_mark", None) or getattr(error, "context_mark", None):
        problem = str(getattr(error, "problem", None) or getattr(error, "context", None) or "it cannot be parsed")
        for pattern, message, fix in _SYNTAX:
            if match := re.search(pattern, problem):
                return RefusedError("TW102", mark, match.expand(message), fix)
        return RefusedError("TW102", mark, problem, "check indentation, quotes and brackets here and on the line before")
    if (position := getattr(error, "position", None)) is not None:
        before = text[:position]
        mark = Mark(before.count("\n"), len(before) - before.rfind("\n") - 1)
        fix = "remove it, or write it as an escape in double quotes"
        return RefusedError("TW102", mark, "a control character that YAML does not allow", fix)
    message, fix = f"what follows here cannot be parsed ({error or type(error).__name__})", "check escapes, tags and directives"
    return RefusedError("TW102", last.end_mark if last else Mark(0, 0), message, fix)


_SYNTAX = (
    (r"'\\t' that cannot start any token", "a tab stands here, where YAML allows only spaces", "indent with spaces, not tabs"),
    (r"character '(.)' that cannot start any token", r"a value cannot begin with \1", "put the value in quotes"),
    ("mapping values are not allowed", "`key: value` cannot stand here",
     "put a value with a colon in quotes, and check the indentation"),
    ("could not find expected ':'", "a colon is missing after the key", "write `key: value`, with a blank after the colon"),
    (r"but found '<(stream|document) end>'", "the file ends where a value is missing", "write it, and close the brackets"),
    ("unexpected end of stream", "the file ends inside a text in quotes", "close the quotes"),
    (r"expected ',' or '([]}])'", r"',' or '\1' is missing here", "close the bracket, and put a comma between two entries"),
    (r"unknown escape character '(.*)'", r"in double quotes, \\\1 has no meaning",
     "write two backslashes for one, or use single quotes"),
)
"""Pattern in a parser's message -> what to say instead, and what to write."""
