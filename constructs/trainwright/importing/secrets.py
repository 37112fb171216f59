"""Secrets in plain text, which are taken out of what becomes a run, and shown to nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from itertools import count
from typing import Any

from trainwright.findings.locate import at, escape, tokens
from trainwright.importing.words import Words
from trainwright.rules.secrets import VARIABLES, secrets_in
from trainwright.variables.secret import ASSIGNED_SECRET, has_secret

HIDDEN = "(a secret)"
"""What is shown in the place of one."""


def shown(pointer: str, value: Any) -> str:
    """A value that stands at a pointer, for people."""
    whole = reduce(lambda inner, key: {key: inner}, reversed(tokens(pointer)), value)
    return HIDDEN if any(secrets_in(whole)) else f"{value!r:.80}"


def hide(words: Words, secret: str) -> tuple[tuple[str, str], ...]:
    """Take the secrets out of a run's words.

    A variable is read from ``secret``, which is to be made; words of a command become references to such a variable; what is left
    of other texts is nothing. Gives what was hidden, and where the original has it.
    """
    hidden, fresh = list[tuple[str, str]](), (f"SECRET_{number}" for number in count(1))
    for pointer in list(secrets_in(words.data)):
        source = _source(words, pointer)
        owner, _, key = pointer.rpartition("/")
        node, way = at(words.data, owner), tokens(pointer)
        names = [way[-1]] if way[-2:-1] and way[-2] in VARIABLES else []
        in_words = {"command", "args"} & set(way) and isinstance(node, list)
        if in_words and not names:
            node[int(key)], names = _referenced(node[int(key)], fresh)
        elif isinstance(node, dict):
            words.data = words.without(pointer)
        within = owner if way[-2:-1] == ["env"] else "/env"
        for name in names:
            words.say(f"{within}/{escape(name)}", {"secret": secret, "key": name}, source)
        hidden.extend((name, source) for name in names or [pointer])
    return tuple(hidden)


def _source(words: Words, pointer: str) -> str:
    """Where the original has it, or the nearest that is known around it."""
    while pointer and pointer not in words.sources:
        pointer = pointer.rpartition("/")[0]
    return words.sources.get(pointer, "")


def _referenced(word: str, fresh: Iterator[str]) -> tuple[str, list[str]]:
    """A word of a command whose secrets are variables, and their names. All up to the next space or quote is a secret."""
    names = list[str]()

    def variable(before: str = "") -> str:
        names.append(next(fresh))
        return f"{before}$({names[-1]})"

    word = ASSIGNED_SECRET.sub(lambda found: variable(found["before"]), word)
    word = "".join(variable() if has_secret(part) else part for part in re.split(r"(\s+|['\"=])", word))
    return (word if names and not has_secret(word) else variable()), names
