"""What a command consists of: words, simple commands, and what joins them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from trainwright.command.names import PYTHON, SHELLS


class By(Enum):
    """Who puts a variable's value in its place."""

    SHELL = "shell"
    KUBERNETES = "kubernetes"
    """``$(NAME)``, before anything starts."""
    NOBODY = "nobody"
    """``$NAME`` in a word that no shell reads."""


class Read(NamedTuple):
    """A variable that a word reads."""

    name: str
    """Empty for arithmetic that nobody does."""
    by: By
    default: bool = False
    """Whether the place brings what to write where the variable is not set, as ``${RANK:-0}`` does."""


class Word(NamedTuple):
    """One word, as its program gets it."""

    text: str
    """Without the quotes of a shell; what is replaced is as it is written."""
    reads: tuple[Read, ...] = ()
    value: str | None = None
    """The whole word where the command itself says all of it; None where that shows only when it runs."""

    @property
    def base(self) -> str:
        """Of a program's path, the last part."""
        return (self.value or self.text).rpartition("/")[2]

    @property
    def variable(self) -> str | None:
        """The variable that it is, if it is nothing else."""
        if len(self.reads) != 1:
            return None
        name = self.reads[0].name
        return name if self.text in (f"${name}", f"${{{name}}}", f"$({name})") else None

    def resolved(self, env: Mapping[str, str]) -> str | None:
        """The whole word, where the command itself or the variables of its container say all of it."""
        if self.value is not None and all(read.by is By.SHELL for read in self.reads):
            return self.value
        text = self.text
        for name, by, _ in self.reads:
            if by is By.NOBODY or name not in env:
                return None
            value = env[name].replace("\\", r"\\")
            text = re.sub(rf"\$(\({name}\)|\{{{name}\}}|{name}(?!\w))", value, text)
        return text if self.reads and not {"$", "`"} & {*text} else None

    @property
    def assignment(self) -> Assignment | None:
        """``NAME=VALUE`` as an argument, as env and ``mpirun -x`` take it."""
        match = _ASSIGNMENT.match(self.text)
        if match is None:
            return None
        value = self.value[match.end() :] if self.value is not None else None
        return Assignment(match[1], Word(self.text[match.end() :], self.reads, value))


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


class Assignment(NamedTuple):
    """A variable that a command sets; of a loop's, or of one that ``read`` fills, nothing is known."""

    name: str
    word: Word = Word("")


class Redirect(NamedTuple):
    """``2> log``: the operator with the number before it, and the file; of a here-document the text."""

    operator: str
    word: Word


class Simple(NamedTuple):
    """A program with its words, or assignments alone."""

    words: tuple[Word, ...]
    sets: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    within: tuple[str, ...] = ()
    """What is around it, the outermost first: shell, pipeline, group, subshell, substitution, branch, loop, function."""
    then: str = ""
    """What joins it to the next: ``&&``, ``||``, ``|``, ``;`` or ``&``; empty at the end of a line."""
    at: int | None = None
    """Number of the word of the whole command in whose text it stands; None for the command itself."""

    @property
    def texts(self) -> list[int]:
        """Numbers of the words that a program reads as its text: those that follow ``-c``, and what its shell reads."""
        words, of_shell = [word.text for word in self.words], self.shell_text
        follow = (number for number, before in enumerate(words[:-1], 1) if _TEXT_FOLLOWS.fullmatch(before))
        return sorted({number for number in follow if words[number] != "--"} | ({of_shell} if of_shell is not None else set()))

    @property
    def shell_text(self) -> int | None:
        """Number of the word that its first shell reads: what stands behind its options, if ``-c`` is one of them, alone or among
        others as in ``-ceu``.
        """
        for number, word in enumerate(self.words):
            index, reads = number + 1, False
            while word.base in SHELLS and index < len(self.words) and (option := self.words[index].text)[:1] in ("-", "+"):
                reads = reads or _READS_TEXT.fullmatch(option) is not None
                index += 2 if VALUED.fullmatch(option) else 1
                if option == "--":
                    break
            if reads and index < len(self.words):
                return index
        return None

    @property
    def own(self) -> list[Word]:
        """The program that it starts in the end, with its words, but for those texts."""
        start, texts = self.start, self.texts
        return [word for number, word in enumerate(self.words) if number == start or (number > start and number not in texts)]

    @property
    def start(self) -> int:
        """Where the program begins that it starts in the end, behind ``exec``, ``env``, ``uv run`` and their options."""
        start, behind = 0, self._behind(0)
        while behind is not None:
            start, behind = behind, self._behind(behind)
        return start

    def _behind(self, index: int) -> int | None:
        """Where the program begins that the one at a word starts; None where that starts no other."""
        wrapper = WRAPPERS.get(self.words[index].base) if index < len(self.words) else None
        return wrapper.end(self.words, index + 1) if wrapper else None

    @property
    def program(self) -> str:
        """Name of the program that it starts in the end, without folders; empty where there is none."""
        return self.words[self.start].base if self.start < len(self.words) else ""

    @property
    def module(self) -> str:
        """Of Python that runs a module, its name; empty where it runs none."""
        if not PYTHON.fullmatch(self.program):
            return ""
        return next((word.text for before, word in pairwise(self.own) if before.text == "-m"), "")

    @property
    def stays(self) -> bool:
        """Whether a program in front of the other one goes on as a process of its own, as timeout does."""
        return any(not WRAPPERS[word.base].replaced for word in self.words[: self.start] if word.base in WRAPPERS)


_TEXT_FOLLOWS = re.compile(r"-[a-z]*c")
_READS_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
VALUED = re.compile(r"[-+][A-Za-z]*[oO]")
"""Options of a shell whose value is the next word: ``-o pipefail``, ``-euo pipefail``."""


class Wrapper(NamedTuple):
    """A program, or a shell's word, that starts the program named behind it."""

    valued: frozenset[str] = frozenset()
    """Its options whose value is the next word."""
    operands: int = 0
    """How many words of its own follow the options."""
    replaced: bool = True
    """Whether the other program takes its process."""
    subcommand: str = ""
    """Without which it starts no other."""

    def end(self, words: tuple[Word, ...], index: int) -> int | None:
        """Where the other program begins."""
        index = self._behind_options(words, index)
        if self.subcommand:
            if [word.text for word in words[index : index + 1]] != [self.subcommand]:
                return None
            index = self._behind_options(words, index + 1)
        return index + self.operands

    def _behind_options(self, words: tuple[Word, ...], index: int) -> int:
        while index < len(words) and (words[index].text.startswith("-") or words[index].assignment):
            index += 1 + (words[index].text in self.valued)
        return index


_UV = frozenset({
    "-p", "--python", "--package", "--project", "--directory", "--extra", "--no-extra", "--group", "--no-group", "--only-group",
    "-w", "--with", "--with-editable", "--with-requirements", "--env-file", "--index", "--default-index", "-i", "--index-url",
    "--extra-index-url", "-f", "--find-links", "--index-strategy", "--cache-dir", "--config-file", "--link-mode", "-P",
    "--upgrade-package", "--reinstall-package", "--refresh-package", "--resolution", "--prerelease", "--exclude-newer",
    "--python-platform", "--color",
})  # fmt: skip
_CONDA = frozenset({"-n", "--name", "-p", "--prefix", "--cwd"})
_NSYS = frozenset({
    *(f"-{letter}" for letter in "bcdefiknopqstwxyF"), "--trace", "--output", "--force-overwrite", "--capture-range",
    "--capture-range-end", "--sample", "--stats", "--export", "--delay", "--duration", "--kill", "--cuda-memory-usage",
    "--cuda-graph-trace", "--gpu-metrics-device", "--gpu-metrics-devices", "--nic-metrics", "--trace-fork-before-exec", "--wait",
    "--stop-on-exit", "--show-output", "--env-var", "--session-new", "--cpuctxsw", "--backtrace", "--python-backtrace",
})  # fmt: skip
WRAPPERS = {
    "exec": Wrapper(frozenset({"-a"})),
    "command": Wrapper(frozenset({"-v", "-V"})),
    "env": Wrapper(frozenset({"-u", "--unset", "-C", "--chdir"})),
    "nice": Wrapper(frozenset({"-n", "--adjustment"})),
    "ionice": Wrapper(frozenset({"-c", "--class", "-n", "--classdata"})),
    "stdbuf": Wrapper(frozenset({"-i", "--input", "-o", "--output", "-e", "--error"})),
    "numactl": Wrapper(frozenset({
        "-N", "--cpunodebind", "-m", "--membind", "-C", "--physcpubind", "-i", "--interleave", "-p", "--preferred", "-P",
        "--preferred-many", "-w", "--weighted-interleave",
    })),
    **dict.fromkeys(("nohup", "setsid"), Wrapper()),
    "chrt": Wrapper(frozenset({"-T", "--sched-runtime", "-P", "--sched-period", "-D", "--sched-deadline"}), operands=1),
    **dict.fromkeys(("taskset", "gosu", "su-exec"), Wrapper(operands=1)),
    "sudo": Wrapper(
        frozenset({"-u", "--user", "-g", "--group", "-C", "--close-from", "-p", "--prompt", "-D", "--chdir"}), replaced=False
    ),
    "time": Wrapper(frozenset({"-f", "--format", "-o", "--output"}), replaced=False),
    "timeout": Wrapper(frozenset({"-s", "--signal", "-k", "--kill-after"}), operands=1, replaced=False),
    "tini": Wrapper(frozenset({"-p", "-e"}), replaced=False),
    "dumb-init": Wrapper(frozenset({"-r", "--rewrite"}), replaced=False),
    "xargs": Wrapper(
        frozenset({
            "-a", "--arg-file", "-d", "--delimiter", "-E", "-I", "-L", "--max-lines", "-n", "--max-args", "-P", "--max-procs",
            "-s", "--max-chars",
        }),
        replaced=False,
    ),
    "uv": Wrapper(_UV, replaced=False, subcommand="run"),
    "poetry": Wrapper(frozenset({"-C", "--directory", "-P", "--project"}), subcommand="run"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), Wrapper(_CONDA, replaced=False, subcommand="run")),
    "nsys": Wrapper(_NSYS, replaced=False, subcommand="profile"),
}  # fmt: skip
"""Their manual pages: coreutils, util-linux, findutils, numactl(8), tini, dumb-init, uv, poetry (whose ``run`` replaces itself),
conda and Nsight Systems.
"""


class Command(NamedTuple):
    """A command and all that is known of the simple commands in it."""

    simple: tuple[Simple, ...]
    """In the order of the text. The command of a list of words comes first, before those of the texts that its shells read."""
    shell_text: int | None = None
    """Number of the word that a shell reads."""
    takes_arguments: bool = False
    """Whether a text reads the words behind it, as ``"$@"``."""
    whole: bool = True
    """Whether the grammar knows all of it: a quote that nothing closes leaves the rest unread."""

    def words(self) -> Iterator[Word]:
        for simple in self.simple:
            yield from simple.words
            yield from (assignment.word for assignment in simple.sets)

    def sets(self) -> Iterator[Assignment]:
        """What its shells set, and what stands as ``NAME=VALUE`` among the words of a program."""
        for simple in self.simple:
            yield from simple.sets
            texts = simple.texts
            yield from filter(None, (word.assignment for number, word in enumerate(simple.words) if number not in texts))

    def sets_unread(self) -> set[str]:
        """Variables that it sets before any of its words reads them: what they were elsewhere never counts."""
        own, read = set[str](), set[str]()
        for alone in (Command((simple,)) for simple in self.simple):
            read |= {one.name for word in alone.words() for one in word.reads} - own
            own |= {name for name, _ in alone.sets()} - read
        return own

    def names_read(self) -> set[str]:
        """Variables that a shell has to have from elsewhere, so that their place is not empty."""
        return {read.name for word in self.words() for read in word.reads if read.by is By.SHELL and not read.default}

    @property
    def process_1(self) -> Simple:
        """The simple command whose program is process 1 once it runs. A shell becomes what ``exec`` starts; bash also becomes the
        last command of its text where nothing is around that (seen with bash 5.2; dash 0.5.12 waits for it).
        """
        first = self.simple[0]
        inside = [simple for simple in self.simple if simple.within == ("shell",) and simple.then not in ("|", "&")]
        if first.stays or not inside:
            return first
        replaced = next((simple for simple in inside if simple.words and simple.words[0].text == "exec"), None)
        last = self.simple[-1]
        traps = any(simple.program == "trap" for simple in self.simple)  # bash stays for them
        bare = last.within == ("shell",) and not last.redirects and first.program == "bash" and not traps
        return replaced or (last if bare else first)
