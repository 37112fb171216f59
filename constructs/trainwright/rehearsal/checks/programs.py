"""What a container's command takes from its image: programs, and the files that they start.

What is not on this machine ends a rehearsal before it starts. A shell's text is followed as far as it is certain: what a branch
starts, or what something before it may have made, is left to the shell.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainwright.command.launchers import MPI_LAUNCHERS, launches
from trainwright.command.model import Command, Simple
from trainwright.command.names import BUILTINS, MAKERS
from trainwright.command.reading import read
from trainwright.rehearsal.setting import IMAGE_DIRECTORY, Options
from trainwright.rehearsal.stated.environment import command_line, find_program, not_found
from trainwright.rehearsal.stated.kinds import Container
from trainwright.rehearsal.stated.objects import Blocker
from trainwright.rehearsal.stated.volumes import PathRewriter

PROGRAM_ENDINGS = (".py", ".sh", ".pyz")
"""Of files that a command starts, and does not write."""
CERTAIN = {"shell", "group", "subshell"}
"""What may stand around a command that runs whatever happens."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A program, or a file that a program starts."""

    word: str
    path: str | None
    """Of a file, from the image's root or from the image's working directory; None of a program by its name."""
    by_shell: bool


def check_programs(
    container: Container, words: Sequence[str], values: Mapping[str, str], program: Sequence[str], options: Options, where: str
) -> Iterator[Blocker]:
    """Everything of the container's command, and of the program that our supervisor starts for it, that is not here."""
    mounted = [mount.mount_path for mount in container.volume_mounts]
    needed = (need for argv in (words, program) for need in _needs(read(tuple(argv)), values, container.working_dir))
    for need in {need.path or need.word: need for need in needed}.values():
        if _is_here(need, mounted, values, options):
            continue
        if need.path is None:
            yield Blocker(where, _not_found(need), f"{_INSTALL}{_mount('/usr/local/bin')}")
        else:
            message = _not_found(need) if need.word == words[0] else f"{need.word} is not on this machine: only the image has it"
            yield Blocker(where, message, _mount(posixpath.dirname(need.path) if need.path[0] == "/" else IMAGE_DIRECTORY))


def has_program(container: Container, values: Mapping[str, str], filled: Sequence[str], options: Options) -> bool:
    """Whether the program that a container starts is on this machine, or may be in a folder that another container fills.

    What the image of a container without a command starts is never known.
    """
    words = command_line(container, values) if container.command else ()
    return any(_is_here(need, filled, values, options) for word in words[:1] for need in _of_program(word, container.working_dir))


_INSTALL = "install it into this Python's environment, correct the command, or "


def _not_found(need: Needed) -> str:
    if need.by_shell:
        return f"{need.word}: command not found"
    return not_found(need.word)


def _mount(folder: str) -> str:
    what = " (the working directory of the image)" if folder == IMAGE_DIRECTORY else ""
    return f"name a folder that stands for the image's: --mount {folder}=FOLDER{what}"


def _is_here(need: Needed, mounted: Sequence[str], values: Mapping[str, str], options: Options) -> bool:
    """What a volume brings is not known before it runs."""
    local, path = PathRewriter(options.mounts), need.path
    if path is None:
        search = options.search_path({**values, **({"PATH": local(values["PATH"])} if "PATH" in values else {})})
        return find_program(need.word, search) is not None
    if not path.startswith("/"):
        return options.directory is not None and (options.directory / path).exists()
    return any(PurePosixPath(path).is_relative_to(mount) for mount in mounted) or Path(local(path)).exists()


def _needs(command: Command, values: Mapping[str, str], folder: str) -> Iterator[Needed]:
    functions = any("function" in simple.within for simple in command.simple)
    before = ""
    for simple in command.simple:
        certain, before = set(simple.within) <= CERTAIN and before != "||", simple.then
        numbered = list(enumerate(simple.words))[simple.start :]
        words = ["" if number in simple.texts else word.resolved(values) for number, word in numbered]
        if not words:
            continue
        name, taken = simple.program, {word.base for word in simple.words[: simple.start + 1]}
        if words[0] is None or not MAKERS.isdisjoint(taken) or _writes(simple):
            return
        if name == "cd":
            if len(words) < 2 or words[1] is None:
                return
            folder = posixpath.join(folder, words[1])
        elif certain:
            yield from _of_program(words[0], folder, bool(simple.within), functions)
            if name not in BUILTINS | _HANDLES and (started := _started(simple, [*filter(None, words[1:])])):
                yield Needed(started, _joined(folder, started), bool(simple.within))


_HANDLES = frozenset({"rm", "ls", "mkdir", "touch", "find", "grep"})


def _started(simple: Simple, words: Sequence[str]) -> str | None:
    """The file that a program starts: a script by its ending, of mpirun the first path that is no option's."""
    if script := next((word for word in words if word.endswith(PROGRAM_ENDINGS) and word[0] != "-"), None):
        return script
    launched = next((one for one in launches(Command((simple,))) if one.name in MPI_LAUNCHERS), None)
    if launched is None:
        return None
    taken = {value.text for option in launched.options for value in option.values}
    return next((word for word in words if word.startswith("/") and word not in taken), None)


def _of_program(word: str, folder: str, by_shell: bool = False, functions: bool = False) -> Iterator[Needed]:
    if "/" in word:
        yield Needed(word, _joined(folder, word), by_shell)
    elif not by_shell or (word not in BUILTINS and not functions):
        yield Needed(word, None, by_shell)


def _joined(folder: str, word: str) -> str:
    return posixpath.normpath(posixpath.join(folder, word))


def _writes(simple: Simple) -> bool:
    """Whether it writes a file that the shell may start later."""
    return any(">" in each.operator and each.word.text.endswith(PROGRAM_ENDINGS) for each in simple.redirects)
