"""Two commands side by side: whether they say the same, each in its own way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trainwright.command.launchers import Launch, launches
from trainwright.command.model import Command, Simple
from trainwright.command.reading import read


def same_meaning(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Why two containers run the same though their words differ; None where they do not, or where nobody can say.

    Args:
        there: with ``command`` and ``args``, under our names.
        here: ours.
    """
    ones, others = _words(there), _words(here)
    if not ones or not others:
        return None
    if ones == others:
        return "the same words, of which other ones are the command and the arguments"
    one, other = read(ones), read(others)
    if not (one.whole and other.whole):
        return None
    if _said(one) == _said(other):
        return "the same command, with and without a shell around it" if one.simple[1:] or other.simple[1:] else None
    return _launched_alike(one, other)


def _words(container: Mapping[str, Any]) -> tuple[str, ...]:
    lists = (container.get("command") or [], container.get("args") or [])
    return tuple(str(word) for words in lists for word in words)


def _said(command: Command) -> list[tuple[object, ...]]:
    """What is run in the end, without the shells around it and without ``exec``."""
    shells = command.shell_text is not None
    return [_bare(simple) for simple in (command.simple[1:] if shells else command.simple)]


def _bare(simple: Simple) -> tuple[object, ...]:
    words = [word.text for word in simple.words]
    around = tuple(each for each in simple.within if each != "shell")
    return tuple(words[words[:1] == ["exec"] :]), simple.sets, simple.redirects, around, simple.then


def _launched_alike(one: Command, other: Command) -> str | None:
    """Where one launcher starts the same program in both, and its options differ in nothing but what the plan says."""
    first, second = launches(one), launches(other)
    if len(first) != 1 or len(second) != 1 or first[0].name != second[0].name:
        return None
    (there,), (here,) = first, second
    if _around(one, there) != _around(other, here):
        return None
    differ = (_options(there) - _options(here)) + (_options(here) - _options(there))
    decided = [name for name, _ in differ if name in there.launcher.says]
    if len(decided) != len(differ):
        return None
    if not decided:
        return f"the options of {there.program} are the same, and are written in another way"
    says = dict.fromkeys(there.launcher.says[name].value for name in decided)
    return f"{', '.join(dict.fromkeys(decided))} of {there.program}: the plan says it ({'; '.join(says)})"


def _around(command: Command, launch: Launch) -> tuple[object, ...]:
    """All but the launcher's options: other commands, and the program that it starts."""
    simple = command.simple[1:] if command.shell_text is not None else command.simple
    others = [_bare(each) for each in simple if each is not launch.simple]
    return others, launch.simple.sets, launch.simple.redirects, [word.text for word in launch.behind]


def _options(launch: Launch) -> Counter[tuple[str, tuple[str, ...]]]:
    return Counter((option.name, tuple(word.text for word in option.values)) for option in launch.options)
