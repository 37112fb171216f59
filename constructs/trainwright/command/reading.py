"""A list of words, as a container has it, with the texts that shells in it read."""

from __future__ import annotations

import re
from functools import lru_cache

from trainwright.command.grammar import read_text
from trainwright.command.model import By, Command, Read, Simple, Word
from trainwright.command.references import references_in

_OF_A_SHELL = re.compile(r"(?<!\$)\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)|\(\()")
"""What a shell replaces, and Kubernetes leaves as it is."""


@lru_cache(maxsize=4096)
def read(argv: tuple[str, ...]) -> Command:
    """What a container runs. Its own words are nobody's text but Kubernetes'."""
    words = [_word(text) for text in argv]
    for number in Simple(tuple(words)).texts:
        words[number] = _text(argv[number])
    first = Simple(tuple(words))
    at = first.shell_text
    inside = _inside(first, at)
    return inside._replace(simple=(first, *inside.simple), shell_text=at)


@lru_cache(maxsize=512)
def script(text: str) -> Command:
    """What a shell does with a file."""
    return _with_nested(read_text(text))


def interpreter(text: str) -> list[Word]:
    """The program that reads a file, with its options, where the file's first line names one."""
    named = _SHEBANG.match(text)
    return read(tuple(named[1].split())).simple[0].own if named else []


_SHEBANG = re.compile(r"#![ \t]*(\S.*)")


def _word(text: str) -> Word:
    by_kubernetes = tuple(Read(name, By.KUBERNETES) for name in references_in(text))
    unread = tuple(Read(match[1] or match[2] or "", By.NOBODY) for match in _OF_A_SHELL.finditer(text))
    return Word(text, by_kubernetes + unread, None if by_kubernetes else text)


def _text(text: str) -> Word:
    """A program's text has references of its own: ``$(date)`` is the shell's."""
    names = [name for name in references_in(text) if name.isupper()]
    return Word(text, tuple(Read(name, By.KUBERNETES) for name in names), None if names else text)


def _inside(simple: Simple, at: int | None) -> Command:
    """What the shell does that a simple command starts; nothing where it starts none."""
    number = simple.shell_text
    if number is None or simple.within.count("shell") > _DEEPEST:
        return Command(())
    text = simple.words[number].text
    return _with_nested(read_text(text, simple.words[number + 1 :], (*simple.within, "shell"), at))


_DEEPEST = 5
"""Shells in shells; a text may start itself."""


def _with_nested(command: Command) -> Command:
    """The same with what the shells do that it starts; each comes behind the command that starts it."""
    simple, whole = list[Simple](), command.whole
    for each in command.simple:
        inside = _inside(each, each.at)
        simple += [each, *inside.simple]
        whole = whole and inside.whole
    return command._replace(simple=tuple(simple), whole=whole)
