"""A list of words, as a container has it, with the texts that shells in it read."""

from __future__ import annotations

import re
from functools import lru_cache

from trainwright.command.grammar import read_text
from trainwright.command.model import By, Command, Read, Simple, Word
from trainwright.command.references import references_in

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_OF_A_SHELL = re.compile(r"(?<!\$)\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)|\(\()")
"""What a shell replaces, and Kubernetes leaves as it is."""


@lru_cache(maxsize=4096)
def read(argv: tuple[str, ...]) -> Command:
    """What a container runs. Its own words are nobody's text but Kubernetes'."""
    words = [_word(text) for text in argv]
    for number in Simple(tuple(words)).texts:
        words[number] = _text(argv[number])
    first = Simple(tuple(words))
    at = _shell_text(first)
    inside = _inside(first, at, at)
    return inside._replace(simple=(first, *inside.simple), shell_text=at)


@lru_cache(maxsize=512)
def script(text: str) -> Command:
    """What a shell does with a file."""
    return _with_nested(read_text(text))


def _word(text: str) -> Word:
    by_kubernetes = tuple(Read(name, By.KUBERNETES) for name in references_in(text))
    unread = tuple(Read(match[1] or match[2] or "", By.NOBODY) for match in _OF_A_SHELL.finditer(text))
    return Word(text, by_kubernetes + unread, None if by_kubernetes else text)


def _text(text: str) -> Word:
    """A program's text has references of its own: ``$(date)`` is the shell's."""
    names = [name for name in references_in(text) if name.isupper()]
    return Word(text, tuple(Read(name, By.KUBERNETES) for name in names), None if names else text)


def _shell_text(simple: Simple) -> int | None:
    """Of a simple command, the word that its first shell reads: ``python -c`` has a text too."""
    for number in simple.texts:
        at = number - 1
        while at > 0 and (simple.words[at].text.startswith(("-", "+")) or VALUED.fullmatch(simple.words[at - 1].text)):
            at -= 1
        if simple.words[at].base in SHELLS:
            return number
    return None


VALUED = re.compile(r"[-+][A-Za-z]*[oO]")
"""Options of a shell whose value is the next word: ``-o pipefail``, ``-euo pipefail``."""


def _inside(simple: Simple, number: int | None, at: int | None) -> Command:
    """What the shell does that a simple command starts; nothing where it starts none."""
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
        inside = _inside(each, _shell_text(each), each.at)
        simple += [each, *inside.simple]
        whole = whole and inside.whole
    return command._replace(simple=tuple(simple), whole=whole)
