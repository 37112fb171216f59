"""Rules on command lines that were written for a shell: Kubernetes starts the first word as a program, without one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from trainwright.command.names import SHELLS
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.rules.program.command import Line, shown, stated_lines

Problems = Iterator[tuple[int, str, str]]
"""Number of the word, message and fix."""


def shell_words(context: Context) -> Iterator[Finding]:
    """What only a shell understands. The entrypoint of a RayJob has one."""
    if context.run.topology.needs().rendezvous is Rendezvous.RAY_HEAD:
        return
    for line in stated_lines(context):
        places = {number: pointer for number, _, pointer in line.stated()}
        for check in (_first_word, _operators, _no_script, _lost):
            for number, message, fix in check(line):
                if number in places:
                    yield found("TW414", context.locate.run(places[number]), message, fix)


_AS_A_SCRIPT = "write the whole as one script: [bash, -c, SCRIPT]"
_BUILTINS = {
    "cd": "write working_dir, and the program as the first word",
    "exec": "remove it: the first word is process 1 of its container as it is",
    "export": "write variables under env, and the program as the first word",
    **dict.fromkeys(("source", ".", "set", "ulimit"), _AS_A_SCRIPT),
}


def _first_word(line: Line) -> Problems:
    first = next(iter(line.command), "")
    assignment = line.read.simple[0].words[0].assignment if first else None
    if first in _BUILTINS:
        yield 0, f"{first} is a word of a shell and no program, and no shell reads this command", _BUILTINS[first]
    elif assignment:
        name, fix = assignment.name, "write it under env of the run, or `env` as the first word"
        yield 0, f"{name} is set before the program as in a shell, and no shell reads this command", fix


_OPERATORS = frozenset({"&&", "||", "|", ">", ">>", "2>&1"})


def _operators(line: Line) -> Problems:
    """The first of them; after an option it may be meant as text."""
    for number, word in enumerate(line.words):
        if number and word in _OPERATORS and not line.words[number - 1].startswith("-"):
            message = f"the program is given {word} as text: no shell reads this command"
            yield number, message, _AS_A_SCRIPT
            return


def _no_script(line: Line) -> Problems:
    """``[bash, "torchrun train.py"]``: what follows a shell's options is the name of a file."""
    if len(line.words) < 2 or line.words[0].rpartition("/")[2] not in SHELLS:
        return
    shell, script = line.words[0], line.words[1]
    if script and not script.startswith(("-", "+", "/", ".", "$")) and " " in script.strip():
        yield 1, f"{shell} takes {shown(script)} for the name of a file", f"write -c before it: [{shell}, -c, SCRIPT]"


_READERS = frozenset({"shift", "getopts", "source", "eval", "."})
"""What reads the words after a script, or runs what may read them."""
_NAMES = frozenset({"--", "-", "_"})
"""Of a script, which nobody reads."""


def _lost(line: Line) -> Problems:
    """Words after a shell's script are the script's arguments, which it has to read."""
    read, number = line.read, line.read.shell_text
    if number is None or read.takes_arguments or any(simple.program in _READERS for simple in read.simple):
        return
    script, rest = line.words[number], line.words[number + 1 :]
    if rest and not (len(rest) == 1 and (rest[0] in _NAMES or rest[0] in SHELLS)):
        message = f"the shell runs {shown(script)} alone: the words after a script are its arguments, and it reads none"
        whole = shlex.quote(f"{script} {shlex.join(rest)}")
        yield number + 1, message, f"write them into the script: [bash, -c, {whole if len(whole) < 80 else 'SCRIPT'}]"


RUN = (shell_words,)
