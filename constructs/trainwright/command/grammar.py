"""A shell's text, read by tree-sitter's grammar of bash, as simple commands in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from trainwright.command.model import Assignment, By, Command, Read, Redirect, Simple, Word
from trainwright.command.references import REFERENCE

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_AROUND = {
    "pipeline": "pipeline", "subshell": "subshell", "function_definition": "function", "command_substitution": "substitution",
    "process_substitution": "substitution", "for_statement": "loop", "c_style_for_statement": "loop", "while_statement": "loop",
    "if_statement": "branch", "case_statement": "branch", "compound_statement": "group",
}  # fmt: skip
_JOINS = frozenset({"&&", "||", "|", "|&", ";", "&"})
_WORDS = frozenset({
    "word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "simple_expansion",
    "expansion", "arithmetic_expansion", "command_substitution", "process_substitution", "brace_expression", "heredoc_body",
})  # fmt: skip
_NAMES = frozenset({"variable_name", "special_variable_name", "subscript"})
_WITH_DEFAULT = frozenset({":-", "-", ":=", "=", ":?", "?", ":+", "+"})
_FILLED = frozenset({"read", "mapfile", "readarray", "getopts", "unset"})
"""What sets the variables that it is given by name."""
_UNSURE = frozenset({"branch", "loop", "function", "subshell"})


@cache
def _parser() -> Parser:
    """Loaded where a command has a shell's text: most have none, and the grammar takes 30 ms."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def read_text(text: str, arguments: Sequence[Word] = (), within: tuple[str, ...] = (), at: int | None = None) -> Command:
    """What a shell does with a text, given the words behind it (``$0`` and those of ``"$@"``). Kubernetes comes first: of what it
    takes for a reference, and a shell for a program, names in capitals are variables.
    """
    marked = _PAIR.sub(lambda match: _BLANK if match[0] == "\\ " else match[0], REFERENCE.sub(_marked, text))
    root = _parser().parse(marked.encode(errors="replace")).root_node
    reader = _Reader(tuple(arguments), at)
    try:
        reader.visit(root, within)
    except RecursionError:  # a thousand brackets
        return Command((), whole=False)
    return Command(tuple(reader.simple), takes_arguments=reader.takes_arguments, whole=not root.has_error)


_PAIR, _BLANK = re.compile(r"\\.", re.DOTALL), "\ue002"
"""The grammar drops an escaped blank at the beginning of a word."""
_MARK = re.compile("\ue000(\\w+)\ue001")


def _marked(match: re.Match[str]) -> str:
    """A reference as part of a word, whatever quotes are around it; two dollar signs are one."""
    return (f"\ue000{match[1]}\ue001" if match[1].isupper() else match[0]) if match[1] else "$"


class _Reader:
    """Walks the tree once, and keeps what the text has set so far."""

    def __init__(self, arguments: tuple[Word, ...], at: int | None) -> None:
        self.simple: list[Simple] = []
        self.takes_arguments = False
        self._arguments, self._at = arguments, at
        self._known = dict[str, tuple[Word, ...]]()

    def visit(self, node: Node, within: tuple[str, ...]) -> None:
        kind = node.type
        within = (*within, _AROUND[kind]) if kind in _AROUND else within
        if kind in ("command", "declaration_command", "unset_command"):
            self._command(node, within)
        elif kind in ("variable_assignment", "variable_assignments"):
            nodes = [node] if kind == "variable_assignment" else node.named_children
            self._add((), [self._set(each, within, lasting=True) for each in nodes], within)
        elif kind == "test_command":
            self._add((Word("[["), Word(_written(node), tuple(self._reads(node, within)))), (), within)
        elif kind.endswith("_redirect"):
            self._redirect(node, within)
        elif kind == "list" and within[-1:] == ("pipeline",):  # `a && b 2>&1 | c`: the grammar takes all of it into the pipe
            self.visit(node.named_children[0], within[:-1])
            self._inside(node, within, first=1)
        else:
            if kind in ("for_statement", "case_statement"):
                self._head(node, within)
            self._inside(node, within)

    def _inside(self, node: Node, within: tuple[str, ...], first: int = 0) -> None:
        for child in node.children[first:]:
            if child.is_named and child.type not in _WORDS:
                self.visit(child, within)
            elif child.type in _JOINS and self.simple:
                self.simple[-1] = self.simple[-1]._replace(then=child.type)

    def _head(self, node: Node, within: tuple[str, ...]) -> None:
        """What a loop counts with, and the words that it or a choice takes."""
        name = node.child_by_field_name("variable")
        words = [self._word(child, within) for child in node.named_children if child.type in _WORDS]
        sets = self._filled([_written(name)] if name else [])
        self._add((Word(node.type.partition("_")[0]), *words), sets, within)

    def _filled(self, names: Sequence[str]) -> list[Assignment]:
        for name in names:
            self._known.pop(name, None)
        return [Assignment(name) for name in names]

    def _add(self, words: Sequence[Word], sets: Sequence[Assignment], within: tuple[str, ...]) -> None:
        self.simple.append(Simple(tuple(words), tuple(sets), within=within, at=self._at))

    def _command(self, node: Node, within: tuple[str, ...]) -> None:
        words, sets, end = list[Word](), list[Assignment](), 0
        for child in node.children:
            if child.type == "variable_assignment":
                sets.append(self._set(child, within, lasting=node.type != "command"))
            elif not child.type.endswith("_redirect") and child.type != "comment":
                arguments = self._argument(child, within)
                if words and arguments and child.start_byte == end:  # the grammar divides `'a'\\$b`
                    words[-1] = _joined([words[-1], arguments.pop(0)])
                words, end = words + arguments, child.end_byte
        if words and words[0].text in _FILLED:
            sets += self._filled([word.text for word in words[1:] if word.text.isidentifier()])
        self._add(words, sets, within)
        for child in node.children:
            if child.type.endswith("_redirect"):
                self._redirect(child, within)

    def _redirect(self, node: Node, within: tuple[str, ...]) -> None:
        """Of the simple command before it. The line goes on behind the name of a here-document."""
        words = [child for child in node.named_children if child.type in _WORDS]
        signs = [child for child in node.children if child.type == "file_descriptor" or set(child.type) <= set("<>&-|")]
        if words and self.simple:
            operator = "".join(map(_written, signs))
            redirects = (*self.simple[-1].redirects, Redirect(operator, self._word(words[-1], within)))
            self.simple[-1] = self.simple[-1]._replace(redirects=redirects)
        if node.type == "heredoc_redirect":
            self._inside(node, within)

    def _set(self, node: Node, within: tuple[str, ...], *, lasting: bool) -> Assignment:
        """``lasting``: not for one program only."""
        name, value = (node.child_by_field_name(field) for field in ("name", "value"))
        array = [self._word(child, within) for child in value.named_children] if value and value.type == "array" else []
        word = self._word(value, within) if value and not array else Word("", value=None if value else "")
        key = _written(name) if name else ""
        if lasting:
            self._filled([key])
            if _UNSURE.isdisjoint(within) and all(child.type != "+=" for child in node.children):
                self._known[key] = tuple(array) or (word,)
        return Assignment(key, word)

    def _argument(self, node: Node, within: tuple[str, ...]) -> list[Word]:
        """One word, except for a variable that the text gave several, and for the words behind the text."""
        inner, quoted = node, False
        while inner.type in ("command_name", "string") and inner.named_child_count == 1:
            inner, quoted = inner.named_children[0], quoted or inner.type == "string"
        if inner.type in ("simple_expansion", "expansion"):
            name = _written(inner).strip("${}")
            if name in ("@", "*") and self._arguments[1:]:
                self.takes_arguments = True
                return list(self._arguments[1:])
            if name.isdecimal() and int(name) < len(self._arguments):
                self.takes_arguments = True
                return [self._arguments[int(name)]]
            known = self._known.get(name.partition("[")[0], ())
            if known and name.endswith(("[@]", "[*]")):
                return list(known)
            parts = (known[0].value or "").split() if known and not quoted else []
            if len(parts) > 1:
                return [Word(part, value=part) for part in parts]
        return [self._word(node, within)]

    def _word(self, node: Node, within: tuple[str, ...]) -> Word:
        word = _joined(list(self._pieces(node, within)))
        named = tuple(Read(name, By.KUBERNETES) for name in _MARK.findall(word.text))
        return Word(_MARK.sub(r"$(\1)", word.text), word.reads + named, None if named else word.value)

    def _pieces(self, node: Node, within: tuple[str, ...]) -> Iterator[Word]:
        """Parts of a word; the grammar has no node for blanks between two of them."""
        kind, written = node.type, _written(node)
        if kind == "raw_string":
            yield _plain(written[1:-1], _NOTHING)
        elif kind == "ansi_c_string":
            yield _plain(written[2:-1], _ANSI)
        elif kind in ("simple_expansion", "expansion", "arithmetic_expansion") or kind.endswith("_substitution"):
            known = self._known.get(written.strip("${}"), ())
            yield Word(written, tuple(self._reads(node, within)), known[0].value if len(known) == 1 else None)
        else:
            quotes = int(kind == "string")
            raw, at, escaped = node.text or b"", quotes, _IN_QUOTES if quotes or kind == "heredoc_body" else _ESCAPED
            for child in node.named_children:
                if not child.type.endswith("_content"):
                    yield _plain(raw[at : child.start_byte - node.start_byte].decode(errors="replace"), escaped)
                    yield from self._pieces(child, within)
                    at = child.end_byte - node.start_byte
            yield _plain(raw[at : len(raw) - quotes].decode(errors="replace"), escaped)

    def _reads(self, node: Node, within: tuple[str, ...]) -> Iterator[Read]:
        """Variables in an expansion or below it. What it starts is a command of its own."""
        if node.type.endswith("_substitution"):
            self._inside(node, (*within, "substitution"))
        elif node.type == "variable_name":
            yield Read(_written(node), By.SHELL)
        elif node.type in ("simple_expansion", "expansion"):
            names = [_written(child).partition("[")[0] for child in node.named_children if child.type in _NAMES]
            kinds = {child.type for child in node.children}
            self.takes_arguments |= any(name.isdecimal() or name in ("@", "*", "#") for name in names)
            reads = tuple(Read(name, By.SHELL, not _WITH_DEFAULT.isdisjoint(kinds)) for name in names[:1])
            yield from reads
            if not kinds.isdisjoint((":=", "=")):
                word = Word(_written(node), reads)
                self._add((), [one._replace(word=word) for one in self._filled(names[:1])], within)
            for child in node.named_children:
                yield from self._reads(child, within) if child.type not in _NAMES else ()
        else:
            for child in node.named_children:
                yield from self._reads(child, within)


_ESCAPED, _IN_QUOTES = re.compile(r"\\(.?)", re.DOTALL), re.compile(r'\\([$`"\\\n])')
_ANSI, _NOTHING = re.compile(r"\\(.)", re.DOTALL), re.compile(r"(?!)")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def _plain(written: str, escaped: re.Pattern[str]) -> Word:
    """Text without the backslashes that quote."""
    controls = _CONTROLS if escaped is _ANSI else {"\n": ""}
    text = written.replace(_BLANK, " " if escaped is _ESCAPED else "\\ ")
    text = escaped.sub(lambda match: controls.get(match[1], match[1]), text)
    return Word(text, value=text)


def _joined(parts: Sequence[Word]) -> Word:
    values = [part.value for part in parts]
    value = None if None in values else "".join(map(str, values))
    return Word("".join(part.text for part in parts), tuple(read for part in parts for read in part.reads), value)


def _written(node: Node) -> str:
    return (node.text or b"").decode()
