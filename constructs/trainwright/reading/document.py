"""One YAML 1.2 file as plain data, and the line of each value.

Values are built here from a parser's events, so that scalars follow the core schema and nothing else, duplicate keys are seen,
and a hostile file ends as a finding instead of filling the memory. The events are libyaml's where it is sure to agree with
YAML 1.2, and ruamel.yaml's everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NOTHING, Locator, Positions, Taken, escape
from trainwright.scalar import Scalar, ScalarError, read_scalar

LARGEST_FILE = 2**20
"""Bytes."""
MOST_NODES = 20_000
"""Values in a document, each alias counted with all it refers to."""
DEEPEST = 64
"""Mappings and lists inside each other."""
MOST_FINDINGS = 50
"""After so many the file is not what it was taken for."""
LONGEST_MESSAGE = 240


@dataclass(frozen=True, slots=True)
class Document:
    """One file's content: JSON-safe data, and the place of each key and list item."""

    file: str
    """As shown to people."""
    data: dict[str, Any]
    positions: Positions
    """JSON pointer (RFC 6901) -> line and column of the key or list item, from 1. The document itself is the empty pointer."""
    taken: Taken = NOTHING
    """What is in the data beside the file's own."""

    def where(self, pointer: str) -> Where:
        """The place of a value, or of its nearest ancestor that is written down."""
        return Locator(self.file, self.positions, taken=self.taken).run(pointer)


def read_text(path: Path, shown: str | None = None) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        CompileError: TW101 where it is missing, no regular file, larger than 1 MiB, not UTF-8, or may not be read.
    """
    where = Where(file=shown or str(path))
    try:
        if not path.exists():
            raise CompileError([found("TW101", where, "there is no such file", "check its name and its folder")])
        if not path.is_file():
            raise CompileError([found("TW101", where, "this is a folder or a device, not a file", "name a file in it")])
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        fix = "check its name and its permissions"
        raise CompileError([found("TW101", where, f"the file cannot be read: {reason}", fix)]) from error
    if len(content) > LARGEST_FILE:
        raise CompileError([found("TW101", where, "the file is larger than 1 MiB", "check that this is the right file")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = Where(file=where.file, line=content[: error.start].count(b"\n") + 1)
        raise CompileError([found("TW101", place, "the file is not UTF-8 text", "save it as UTF-8")]) from error


def read_yaml(path: Path, shown: str | None = None) -> Document:
    """One mapping from a YAML 1.2 file. ``shown`` is the name that findings give the file; default: the path.

    Raises:
        CompileError: with TW101 to TW104 and TW107.
    """
    return parse_yaml(read_text(path, shown), shown or str(path))


def parse_yaml(text: str, file: str) -> Document:
    """One mapping from YAML 1.2 text; ``file`` is the name that findings give it.

    Raises:
        CompileError: with TW102 to TW104 and TW107.
    """
    reader = _Reader(file)
    node = reader.compose(text)
    if not node.is_mapping:
        kind = "a list" if node.items is not None else "a single value"
        raise reader.stop("TW104", node, f"the file holds {kind}, not keys and values", "write `key: value` lines")
    data = reader.build(node)
    if reader.findings:
        raise CompileError(reader.findings)
    return Document(file=file, data=data, positions=reader.positions)


@dataclass(slots=True)
class _Node:
    line: int
    column: int
    items: list[_Node] | None = None
    """Of a list, and keys and values in turn of a mapping."""
    text: str = ""
    """Of a scalar."""
    plain: bool = False
    """Whether it is a scalar without quotes."""
    is_mapping: bool = False


class _Reader:
    """One document on its way from events to data."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.positions: dict[str, tuple[int, int]] = {}
        self._nodes = 0

    def stop(self, code: str, node: _Node | None, message: str, fix: str) -> CompileError:
        """An error after which nothing more can be said, with what was found before it."""
        self._note(code, node, message, fix)
        return CompileError(self.findings)

    def _note(self, code: str, node: _Node | None, message: str, fix: str, pointer: str = "") -> None:
        line, column = (node.line, node.column) if node else (1, 1)
        self.findings.append(found(code, Where(self.file, line, column, pointer), shorten(message), shorten(fix)))
        if len(self.findings) >= MOST_FINDINGS:
            raise CompileError(self.findings)

    # From events to nodes.

    def compose(self, text: str) -> _Node:
        """The node graph of the one document; an alias is the very node that it names."""
        root: _Node | None = None
        open_lists: list[list[_Node]] = []
        anchors: dict[str, _Node] = {}
        count = 0
        for event in self._events(text):
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                self._check_document(event, root)
                continue
            if kind in ("SequenceEndEvent", "MappingEndEvent"):
                open_lists.pop()
                continue
            if kind not in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent", "AliasEvent"):
                continue
            node = self._node(event, kind, anchors)
            count += 1
            if count > MOST_NODES:
                raise self.stop("TW104", node, f"the file holds more than {MOST_NODES:,} values", "split it")
            if open_lists:
                open_lists[-1].append(node)
            root = root or node
            if kind != "AliasEvent" and node.items is not None:
                open_lists.append(node.items)
                if len(open_lists) > DEEPEST:
                    raise self.stop("TW104", node, f"values are nested more than {DEEPEST} deep", "check the brackets")
        if root is None or (root.plain and not root.text):
            raise self.stop("TW104", None, "the file is empty", "write `key: value` lines")
        return root

    def _events(self, text: str) -> Iterator[Any]:
        events = events_of(text)
        last = None
        while True:
            try:
                event = next(events, None)
            except Exception as error:  # ruamel.yaml itself fails on some broken input, \Uffffffff among it.
                if _is_yaml_error(error):
                    raise self._syntax(error, text) from error
                fix = "check escapes in double quotes, tags and directives"
                message = f"what follows here cannot be parsed ({error or type(error).__name__})"
                near = _Node(last.end_mark.line + 1, last.end_mark.column + 1) if last else _Node(1, 1)
                raise self.stop("TW102", near, message, fix) from error
            if event is None:
                return
            last = event
            yield event

    def _syntax(self, error: Exception, text: str) -> CompileError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is not None:
            problem = str(getattr(error, "problem", None) or getattr(error, "context", None) or "it cannot be parsed")
            message, fix = _in_plain_words(problem)
            return self.stop("TW102", _Node(mark.line + 1, mark.column + 1), message, fix)
        before = text[: getattr(error, "position", 0)]
        node = _Node(before.count("\n") + 1, len(before) - before.rfind("\n"))
        fix = "remove it, or write it as an escape in double quotes"
        return self.stop("TW102", node, "a control character that YAML does not allow", fix)

    def _check_document(self, event: Any, root: _Node | None) -> None:
        node = _Node(event.start_mark.line + 1, event.start_mark.column + 1)
        if root is not None:
            raise self.stop("TW104", node, "a second document begins here", "write one document in a file: remove the line ---")
        if event.version not in (None, (1, 2)):
            raise self.stop("TW104", node, "the file asks for another version of YAML than 1.2", "remove the %YAML line")

    def _node(self, event: Any, kind: str, anchors: dict[str, _Node]) -> _Node:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if kind == "AliasEvent":
            if event.anchor not in anchors:
                message = f"alias *{event.anchor} has no anchor before it"
                raise self.stop("TW102", _Node(line, column), message, "write the value out, or in quotes if it begins with *")
            return anchors[event.anchor]
        if kind == "ScalarEvent":
            node = _Node(line, column, text=event.value, plain=not event.style)
        else:
            node = _Node(line, column, items=[], is_mapping=kind == "MappingStartEvent")
        if event.tag is not None:
            fix = "remove the tag; text that looks like a number goes in quotes"
            self._note("TW104", node, f"tags are not supported: {event.tag.replace('tag:yaml.org,2002:', '!!')[:60]}", fix)
        if event.anchor is not None:
            anchors[event.anchor] = node
        return node

    # From nodes to data.

    def build(self, root: _Node) -> dict[str, Any]:
        """The data, with positions and findings on the way."""
        self.positions[""] = (root.line, root.column)
        built: dict[str, Any] = self._value(root, "", frozenset())
        return built

    def _value(self, node: _Node, pointer: str, above: frozenset[int]) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            message = f"with its aliases the file holds more than {MOST_NODES:,} values"
            raise self.stop("TW104", node, message, "write fewer aliases")
        if node.items is None:
            return self._scalar(node, pointer)
        if id(node) in above:
            raise self.stop("TW104", node, "an alias is inside the value that it names", "write the value out")
        if len(above) >= DEEPEST:
            raise self.stop("TW104", node, f"values are nested more than {DEEPEST} deep", "write fewer aliases")
        inside = above | {id(node)}
        if node.is_mapping:
            return self._mapping(node.items, pointer, inside)
        return [self._item(item, f"{pointer}/{index}", inside) for index, item in enumerate(node.items)]

    def _item(self, node: _Node, pointer: str, above: frozenset[int]) -> Any:
        self.positions[pointer] = (node.line, node.column)
        return self._value(node, pointer, above)

    def _mapping(self, items: list[_Node], pointer: str, above: frozenset[int]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in zip(items[::2], items[1::2], strict=True):
            key = self._key(key_node, pointer)
            if key is None:
                continue
            below = f"{pointer}/{escape(key)}"
            if key in data:
                self._note("TW103", key_node, f"key `{key[:60]}` is already on line {lines[key]}",
                           f"keep one of the two: that on line {lines[key]}, or that on line {key_node.line}", below)
                continue
            lines[key] = key_node.line
            self.positions[below] = (key_node.line, key_node.column)
            data[key] = self._value(value_node, below, above)
        return data

    def _key(self, node: _Node, pointer: str) -> str | None:
        """A key's text; None, with a finding, where it has none."""
        if node.items is not None:
            self._note("TW104", node, "a key must be text, not a list or mapping", "write `key: value`", pointer)
            return None
        if node.plain and node.text == "<<":
            self._note("TW104", node, "merge keys (<<) are not part of YAML 1.2", "write the keys out", pointer)
            return None
        try:
            text_key = not node.plain or isinstance(read_scalar(node.text), str)
        except ScalarError:
            text_key = False
        if not text_key:
            message, fix = f"a key must be text, and {node.text[:60]} is not", f'write "{node.text[:60]}" in quotes'
            if not node.text:
                message, fix = "there is no key before the colon", "write `key: value`"
            self._note("TW104", node, message, fix, pointer)
            return None
        return node.text if self._is_unicode(node, pointer) else None

    def _scalar(self, node: _Node, pointer: str) -> Scalar:
        if not node.plain:
            return node.text if self._is_unicode(node, pointer) else None
        try:
            return read_scalar(node.text)
        except ScalarError as error:
            self._note("TW107", node, str(error), error.fix, pointer)
            return None

    def _is_unicode(self, node: _Node, pointer: str) -> bool:
        """Escapes can name half of a surrogate pair, which no file and no API takes."""
        try:
            node.text.encode()
        except UnicodeEncodeError:
            fix = r"write the character itself, or \U and its code point"
            self._note("TW104", node, "an escape names half a surrogate pair", fix, pointer)
            return False
        return True


def _is_yaml_error(error: Exception) -> bool:
    from ruamel.yaml import error as ruamel
    from yaml import error as pyyaml

    return isinstance(error, ruamel.YAMLError | pyyaml.YAMLError)


_CHECK = "check indentation, quotes and brackets here and on the line before"
_SYNTAX = (
    (r"'\\t' that cannot start any token", "a tab stands here, where YAML allows only spaces", "indent with spaces, not tabs"),
    (r"character '(.)' that cannot start any token", r"a value cannot begin with \1", "put the value in quotes"),
    ("mapping values are not allowed", "`key: value` cannot stand here",
     "put a value with a colon in quotes, and check the indentation"),
    ("could not find expected ':'", "a colon is missing after the key", "write `key: value`, with a blank after the colon"),
    ("unexpected end of stream", "the file ends inside a text in quotes", "close the quotes"),
    (r"expected ',' or '([]}])'", r"',' or '\1' is missing here", "close the bracket, and put a comma between two entries"),
    (r"unknown escape character '(.*)'", r"in double quotes, \\\1 has no meaning",
     "write two backslashes for one, or use single quotes"),
)
"""Pattern in a parser's message -> what to say instead, and what to write."""


def _in_plain_words(problem: str) -> tuple[str, str]:
    """What a parser found, and what to write; the parser's own words where they are not known."""
    for pattern, message, fix in _SYNTAX:
        if match := re.search(pattern, problem):
            return match.expand(message), fix
    return problem, _CHECK


def shorten(text: str) -> str:
    """A message that quotes the user's file, cut where it quotes too much."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


_DIFFERENT = re.compile(
    r"^%|!|[|>][-+0-9]*[ #]|[|>][-+0-9]*$" "|[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]", re.MULTILINE
)
"""Directives, tags, block scalars, tabs, and what is a line break or not allowed in one of the two versions."""


def events_of(text: str) -> Iterator[Any]:
    """Events with ``start_mark`` and ``end_mark``; their classes have the same names and fields in both libraries.

    Raises:
        YAMLError: of either library; and, for some broken input, whatever its parser fails with.
    """
    quick = None if _DIFFERENT.search(text) else _quick(text)
    if quick is not None:
        yield from quick
        return
    from ruamel.yaml import YAML  # 25 ms to import, and hardly ever needed

    yield from YAML(typ="safe", pure=True).parse(text)


def _quick(text: str) -> list[Any] | None:
    """None where libyaml is not there, or does not read the text; not all of what is too large or nested too deep to be read."""
    try:
        from yaml import CBaseLoader, YAMLError
    except ImportError:
        return None
    loader = CBaseLoader(text)
    events: list[Any] = []
    depth = 0
    try:
        # libyaml takes a time that grows with the square of the depth, so a text that is too deep is not read to its end.
        while depth <= DEEPEST and len(events) <= 3 * MOST_NODES and (event := loader.get_event()) is not None:
            events.append(event)
            depth += _STEPS.get(type(event).__name__, 0)
    except (YAMLError, ValueError) as error:
        if getattr(error, "problem", None) == "found unexpected end of stream":
            raise  # a quote without its end is that in both versions, and ruamel.yaml takes seconds to say so
        return None
    finally:
        loader.dispose()
    return events


_STEPS = {"SequenceStartEvent": 1, "MappingStartEvent": 1, "SequenceEndEvent": -1, "MappingEndEvent": -1}
"""An event -> by how much it changes the depth."""
