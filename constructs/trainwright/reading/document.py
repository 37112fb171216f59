"""One YAML 1.2 file as plain data, and the line of each value.

A parser's events, in which each alias is replaced by what it names, become values in one walk: so scalars follow the core schema
and nothing else, duplicate keys and tags are seen, and a hostile file ends as a finding instead of filling the memory. (What the
libraries make of events themselves does not tell which tags were written, and has no limits.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NO_DEFAULTS, Defaulted, Locator, Positions, escape
from trainwright.reading.events import Mark, RefusedError, UnsureError, careful_events, kind_of, nodes_in, quick_events
from trainwright.reading.scalar import Scalar, ScalarError, read_scalar, written_scalar

LARGEST_FILE = 2**20
"""Bytes."""
MOST_NODES = 20_000
"""Keys and values in a document, each alias counted with all it refers to."""
DEEPEST = 64
"""Mappings and lists inside each other."""
MOST_FINDINGS = 50
"""After so many the file is not what it was taken for."""
LONGEST_MESSAGE = 240


class Document(NamedTuple):
    """One file's content: JSON-safe data, and the place of each key and list item."""

    file: str
    """As shown to people."""
    data: dict[str, Any]
    positions: Positions
    """JSON pointer (RFC 6901) -> line and column of the key or list item, from 1. The document itself is the empty pointer."""
    defaulted: Defaulted = NO_DEFAULTS
    """What is in the data beside the file's own."""

    def where(self, pointer: str) -> Where:
        """The place of a value, or of its nearest ancestor that is written down."""
        return Locator(self.file, self.positions, defaulted=self.defaulted).run(pointer)


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


def parse_yaml(text: str, file: str, scalar: Callable[[str], Scalar] = written_scalar) -> Document:
    """One mapping from YAML 1.2 text; ``file`` is the name that findings give it, and ``scalar`` reads what has no quotes:
    manifests, which have a check of their own for numbers that kubectl reads differently, by ``read_scalar``.

    Raises:
        CompileError: with TW102 to TW104 and TW107.
    """
    try:
        return _Reader(file, quick_events(text), scalar).read()
    except UnsureError:
        return _Reader(file, careful_events(text), scalar).read()


def from_here(path: Path) -> str:
    """A path as people read it: relative to the working directory where it lies inside."""
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.as_posix()


def shorten(text: str) -> str:
    """A message that quotes the user's file, cut where it quotes too much."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


class _Reader:
    """One document on its way from events to data. Where there is a finding, nobody gets the data."""

    def __init__(self, file: str, events: Iterator[Any], scalar: Callable[[str], Scalar]) -> None:
        self.file = file
        self.events = nodes_in(events)
        self.scalar = scalar
        self.findings: list[Finding] = []
        self.positions: dict[str, tuple[int, int]] = {}
        self._count = 0

    def read(self) -> Document:
        data: Any = None
        try:
            if root := next(self.events, None):
                self.positions[""] = _place(root.start_mark)
                data = self._value(root, "", 0)
            for _ in self.events:  # there is no other value, but there may be a mistake
                pass
            if root is None or (data is None and not root.value):
                raise RefusedError("TW104", Mark(0, 0), "the file is empty", "write `key: value` lines")
            if not isinstance(data, dict):
                message = f"the file holds {'a list' if isinstance(data, list) else 'a single value'}, not keys and values"
                raise RefusedError("TW104", root.start_mark, message, "write `key: value` lines")
        except RefusedError as error:
            self._note(*error.args)
        if self.findings:
            raise CompileError(list(dict.fromkeys(self.findings)))
        return Document(self.file, data, self.positions)

    def _note(self, code: str, mark: Mark, message: str, fix: str, pointer: str = "") -> None:
        self.findings.append(found(code, Where(self.file, *_place(mark), pointer), shorten(message), shorten(fix)))
        if len(self.findings) >= MOST_FINDINGS:
            raise CompileError(self.findings)

    def _begin(self, event: Any, depth: int) -> None:
        """Every key and value begins here."""
        self._count += 1
        if self._count > MOST_NODES:
            message = f"the file holds more than {MOST_NODES:,} values, and for each alias those that it names"
            raise RefusedError("TW104", event.start_mark, message, "split it, or write fewer aliases")
        if depth == DEEPEST and kind_of(event) != "Scalar":
            fix = "check the brackets, or write fewer aliases"
            raise RefusedError("TW104", event.start_mark, f"values are nested more than {DEEPEST} deep", fix)
        if event.tag is not None:
            fix = "remove the tag; text that looks like a number goes in quotes"
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")[:60]
            self._note("TW104", event.start_mark, f"tags are not supported: {tag}", fix)

    def _value(self, event: Any, pointer: str, depth: int) -> Any:
        """The value that begins with an event."""
        self._begin(event, depth)
        if kind_of(event) == "SequenceStart":
            return self._list(pointer, depth + 1)
        if kind_of(event) == "MappingStart":
            return self._mapping(pointer, depth + 1)
        if event.style:
            return self._unicode(event, pointer)
        try:
            return self.scalar(event.value)
        except ScalarError as error:
            self._note("TW107", event.start_mark, str(error), error.fix, pointer)
            return None

    def _list(self, pointer: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while kind_of(event := next(self.events)) != "SequenceEnd":
            below = f"{pointer}/{len(items)}"
            self.positions[below] = _place(event.start_mark)
            items.append(self._value(event, below, depth))
        return items

    def _mapping(self, pointer: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while kind_of(event := next(self.events)) != "MappingEnd":
            line, column = _place(event.start_mark)
            key = self._key(event, pointer, depth)
            below = pointer if key is None else f"{pointer}/{escape(key)}"
            first, _ = self.positions.setdefault(below, (line, column))
            if key in data:
                self._note("TW103", event.start_mark, f"key `{key[:60]}` is already on line {first}",
                           f"keep one of the two: that on line {first}, or that on line {line}", below)
            value = self._value(next(self.events), below, depth)
            if key is not None:
                data[key] = value
        return data

    def _key(self, event: Any, pointer: str, depth: int) -> str | None:
        """A key's text; None, with a finding, where it has none."""
        if kind_of(event) != "Scalar":
            self._value(event, pointer, depth)
            self._note("TW104", event.start_mark, "a key must be text, not a list or mapping", "write `key: value`", pointer)
            return None
        self._begin(event, depth)
        if event.style:
            return self._unicode(event, pointer)
        try:
            is_text = isinstance(read_scalar(event.value), str)
        except ScalarError:
            is_text = False
        if is_text and event.value != "<<":
            return str(event.value)
        shown = event.value[:60]
        message, fix = f"a key must be text, and {shown} is not", f'write "{shown}" in quotes'
        if event.value == "<<":
            message, fix = "merge keys (<<) are not part of YAML 1.2", "write the keys out"
        elif not event.value:
            message, fix = "there is no key before the colon", "write `key: value`"
        self._note("TW104", event.start_mark, message, fix, pointer)
        return None

    def _unicode(self, event: Any, pointer: str) -> str:
        """The text of a scalar in quotes, in which escapes can name half of a surrogate pair. No file and no API takes that."""
        text: str = event.value
        try:
            text.encode()
        except UnicodeEncodeError:
            fix = r"write the character itself, or \U and its code point"
            self._note("TW104", event.start_mark, "an escape names half a surrogate pair", fix, pointer)
        return text


def _place(mark: Mark) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1
