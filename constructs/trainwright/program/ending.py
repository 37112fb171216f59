"""Commands that lose their end: nobody hands SIGTERM on to the ranks, or nobody sees that they failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from trainwright.command.model import VALUED, Simple, Word
from trainwright.command.names import PREPARE, PYTHON, SHELLS
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import at
from trainwright.program.container import Program, Text, launches_in, shown


def works(simple: Simple) -> bool:
    """Whether it is the work of its container, as far as that shows: a launcher, a program in Python, a script."""
    words = [word.text for word in simple.own]
    if PYTHON.fullmatch(simple.program):
        return simple.module not in PREPARE if simple.module else any(word.endswith(".py") for word in words)
    after = (word for before, word in pairwise(words) if not word.startswith(("-", "+")) and not VALUED.fullmatch(before))
    first = next(after, "")
    is_script = (simple.program in SHELLS and first.endswith(".sh")) or simple.program.endswith(".sh")
    return is_script or any(launch.name != "ray" for launch in launches_in(simple))


def _work(text: Text) -> tuple[Sequence[Simple], int | None]:
    """What a text does by itself, and the number of what is its work: the last launcher, or the last that works where there is
    none. What comes before prepares, and what comes behind looks at what came out.
    """
    lines = [simple for simple in text.simple if "substitution" not in simple.within]
    numbers = [number for number, simple in enumerate(lines) if works(simple)]
    launched = [number for number in numbers if launches_in(lines[number])]
    return lines, max(launched or numbers, default=None)


def drops_the_end(program: Program) -> Iterator[Finding]:
    """Linux gives process 1 no signal that it does not handle, and a shell handles none while it waits for a program (proved with
    bash 5.2 and dash 0.5.12 under ``unshare --pid``).
    """
    handled = at(program.container, "/lifecycle/preStop")
    for text in program.shells():
        lines, number = _work(text)
        if not text.first or number is None or handled or not program.process_1 or any(map(_handles, text.simple)):
            continue
        becomes = program.command.process_1.words if text.place == program.at else ()
        work, behind = lines[number], filter(works, lines[number + 1 :])
        if any(_replaces(one) or one.words == becomes for one in (work, *(behind if work.then == "&" else ()))):
            continue
        name, whole = work.words[work.start].base, _plain(work)
        message = f"{text.shell[0].base} is process 1, waits for {name}, and drops SIGTERM: {name} is killed without a word"
        first = f"write `exec {whole}`" + ("" if number == len(lines) - 1 else " as the last command")
        trap = f"`trap 'kill -TERM $!' TERM; {whole} & wait $!; wait $!`"
        yield found("TW470", program.where(text.place), message, f"{first}; or, where more has to follow, {trap}")


def _replaces(simple: Simple) -> bool:
    """Whether the shell becomes what it starts."""
    beside = simple.then in (*_PIPES, "&") or not {"pipeline", "subshell"}.isdisjoint(simple.within)
    return simple.words[0].text == "exec" and not beside


def _plain(simple: Simple) -> str:
    return shown(simple.words[simple.words[0].text == "exec" :])


def _handles(simple: Simple) -> bool:
    return simple.program == "trap" and any(word.text in ("TERM", "SIGTERM", "15") for word in simple.words)


def hides_a_failure(program: Program) -> Iterator[Finding]:
    """What the container ends with if its work fails: followed through the rest of the text, where all else succeeds."""
    for text in program.shells():
        lines, number = _work(text)
        if number is not None:
            yield from _end_of(program, text, lines, number)


def _end_of(program: Program, text: Text, lines: Sequence[Simple], number: int) -> Iterator[Finding]:
    work, where, start = lines[number], program.where(text.place), number
    name = work.words[work.start].base
    if work.then == "&":
        waits = [at for at in range(number + 1, len(lines)) if lines[at].program in ("wait", "fg")]
        told = [at for at in waits if len(lines[at].words) > 1]
        others = [one for one in lines[number + 1 :] if one.program in _STAYS]
        if not waits and others:
            message = f"{name} starts in the background, and the container lives as long as `{shown(others[0].words)}` does"
            yield found("TW471", where, message, "write `wait $!` in its place, which ends as the program does")
        elif not waits and all("loop" not in one.within for one in lines[number:]):
            message = f"{name} starts in the background, and the shell ends at once: the container ends, and {name} with it"
            yield found("TW472", where, message, f"remove the `&` behind `{_plain(work)}`, or write `wait $!` at the end")
        elif waits and not told:
            message = f"`wait` alone always succeeds: a failed {name} would be Complete"
            yield found("TW471", where, message, "write `wait $!`, which ends as the program does")
        if not told:
            return
        start = told[-1]
    hides = _hidden_by(lines, start, text)
    if hides is not None:
        instead = shown(hides.words) or "what follows"
        message = f"where {name} fails, the container ends with the code of `{instead}`: a failed run would be Complete"
        yield found("TW471", where, message, _seen(lines[start], hides, instead))


_STAYS = frozenset({"tail", "sleep", "cat"})
"""Programs that people keep a container alive with."""


def _seen(work: Simple, hides: Simple, instead: str) -> str:
    """What to write so that the failure shows."""
    if work.then in _PIPES:
        told = f"`exec {_plain(work)} > >({instead}) 2>&1`, which gets SIGTERM too"
        return f"write `set -o pipefail` before it, in bash; or {told}"
    if hides.program == "exit":
        return f"remove `{instead}`: the code of the last command is that of the container"
    return f"remove `|| {instead}`" if work.then == "||" else f"write `set -e` before it, or `&&` before `{instead}`"


_PIPES = ("|", "|&")
_OPEN = frozenset({"pipeline", "group", "subshell"})
"""What commands may stand in without a condition on whether they run."""


def _hidden_by(lines: Sequence[Simple], start: int, text: Text) -> Simple | None:
    """The command whose success stands for a failure of that one; None where the text ends with the failure, or may."""
    work, sets = lines[start], (word for simple in lines[:start] if simple.program == "set" for word in simple.words)
    options = _options([word.text for word in (*text.shell, *sets)])
    strict, pipefail = "errexit" in options, "pipefail" in options
    rest = [simple for simple in lines[start + 1 :] if simple.program not in ("echo", "printf")]
    later = [read.name for simple in rest for word in _all(simple) for read in word.reads]
    if not _OPEN.issuperset(work.within) or {"?", "PIPESTATUS"} & {*later}:
        return None
    hides, at, edge = None, start, start
    while at + 1 < len(lines):
        joined, one = lines[at].then, lines[at + 1]
        at += 1
        if joined in _PIPES:
            hides, edge = hides or (None if pipefail else one), at
        elif (joined == "&&" and hides is None) or (joined == "||" and hides is not None):
            while at + 1 < len(lines) and len(lines[at + 1].within) > len(work.within) and len(one.within) > len(work.within):
                at += 1
        elif joined not in ("&&", "||") and strict and hides is None and at - 1 == edge:
            return None
        elif one.program in ("exit", "return", "false", "kill"):
            code = one.words[-1].text if len(one.words) > 1 else ""
            return one if code == "0" else hides if one.program == "exit" and not code else None
        else:
            hides = one
    return hides


def _options(words: Sequence[str]) -> set[str]:
    """Options of a shell that are on behind these words; the last word on one decides."""
    on = set[str]()
    for before, word in pairwise(("", *words)):
        if VALUED.fullmatch(before):
            on = on | {word} if before[0] == "-" else on - {word}
        elif re.fullmatch(r"[-+][A-Za-z]*e[A-Za-z]*", word):
            on = on | {"errexit"} if word[0] == "-" else on - {"errexit"}
    return on


def _all(simple: Simple) -> Iterator[Word]:
    yield from simple.words
    yield from (assignment.word for assignment in simple.sets)


RULES = (drops_the_end, hides_a_failure)
