"""Paths of a command, against what is mounted where: a program under a volume, what is saved beside the claim."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from trainwright.command.model import Command, Simple
from trainwright.command.names import BUILTINS, MAKERS
from trainwright.command.saving import SAVING_OPTIONS, directories
from trainwright.findings import Finding
from trainwright.findings.codes import found, milder
from trainwright.objects.fields import items, text
from trainwright.program.container import Program
from trainwright.program.ending import works

_EMPTY = frozenset({"emptyDir", "ephemeral"})
"""Volumes that a new pod finds empty."""
_PASSING = ("/tmp", "/var/tmp", "/dev", "/proc")  # noqa: S108
"""What is there is not meant to stay."""


def runs_what_is_there(program: Program) -> Iterator[Finding]:
    """A volume hides what the image has at its path. A claim may hold the program itself, above all one that is only read, and a
    command may bring the program before it starts it.
    """
    said = set[str]()
    for place, path, brought in _programs(program):
        mount = program.mount_of(path)
        if path in program.files or mount is None or mount.path == path or mount.path in said or mount.read_only:
            continue
        if any(program.mount_of(one) == mount for one in brought):
            continue
        said.add(mount.path)
        empty = not _EMPTY.isdisjoint(mount.volume) and not mount.filled and not _shared(program, mount.volume)
        if empty or mount.claim:
            what = "an empty volume" if empty else f"claim {mount.claim}"
            message = f"the command runs {path}, and {what} at {mount.path} hides what the image has there"
            where = program.where(mount.place) if place == program.at else program.where(place)
            fix = f"mount it elsewhere than at {mount.path}"
            fix += "" if empty else "; waive this if the program is on the claim, or mount that one read-only"
            yield (found if empty else milder)("TW473", where, message, fix)


def _shared(program: Program, volume: object) -> bool:
    """Whether another container may bring the program."""
    mounting = [one for _, one in items(program.pod, "/containers")
                if any(text(mount, "/name") == text(volume, "/name") for _, mount in items(one, "/volumeMounts"))]
    return len(mounting) > 1


def _programs(program: Program) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Place and absolute path of what each working command runs, a script or a program named by its path, and the paths that
    commands before it may have filled. A bare name is looked up in PATH, and a module in Python's own path.
    """
    brought = list[str]()
    for place, command in program.commands():
        here = text(program.container, "/workingDir")
        for simple in command.simple:
            words = [word.resolved(program.env) or "" for word in simple.own]
            if simple.program == "cd" and len(words) > 1:
                here = posixpath.join(here, words[1]) if words[1] else ""
            if works(simple) or (words[:1] and words[0].startswith("/")):
                named = next((word for word in words if word.endswith(_SCRIPTS)), words[0])
                path = posixpath.normpath(posixpath.join(here, named))
                if path.startswith("/") and (named.endswith(_SCRIPTS) or "/" in named):
                    yield place, path, tuple(brought)
            brought += _filled(simple, here, program.env)


_SCRIPTS = (".py", ".sh")


def _filled(simple: Simple, here: str, env: Mapping[str, str]) -> Iterator[str]:
    """Absolute paths that a command may fill: those that it names, and where a program stands that makes files."""
    own = () if simple.program in BUILTINS | _MAKES else simple.own
    written = [redirect.word for redirect in simple.redirects if ">" in redirect.operator]
    named = [(word.resolved(env) or word.text).rpartition("=")[2] for word in (*own, *written)]
    for path in (*named, *([here] if simple.program in MAKERS else [])):
        if path.startswith("/"):
            yield posixpath.normpath(path)


def saves_on_a_claim(program: Program) -> Iterator[Finding]:
    """The pod has a claim that keeps what is written, and the command writes beside it: that goes with the pod."""
    claims = [mount for mount in program.mounts() if mount.claim and mount.keeps]
    said = set[str]()
    for place, command in program.commands() if claims else ():
        for option, path in directories(command, program.env):
            mount = program.mount_of(path)
            scratch = any(f"{path}/".startswith(f"{folder}/") for folder in _PASSING)
            elsewhere = mount is not None and (mount.keeps or mount.read_only)
            if path in said or scratch or elsewhere or posixpath.splitext(path)[1] or _is_taken_on(command, path):
                continue
            said.add(path)
            lost = f"{mount.path} goes with the pod" if mount else f"nothing is mounted at {path}"
            message = f"--{option.replace('-', '_')} is {path}, and {lost}: what is saved there is lost"
            fix = f"write a folder below {' or '.join(sorted({claim.path for claim in claims}))}, or mount the claim at {path}"
            yield (found if option in SAVING_OPTIONS else milder)("TW474", program.where(place), message, fix)


def _is_taken_on(command: Command, path: str) -> bool:
    """Whether another program, such as one that uploads, is given the directory too."""
    own = command.simple[command.shell_text is not None :]
    given = [simple for simple in own if any(path in (word.value or word.text) for word in simple.words)]
    return len([simple for simple in given if simple.program not in _MAKES]) > 1


_MAKES = frozenset({"mkdir", "rm", "ls", "echo", "chmod", "chown", "test", "["})

RULES = (runs_what_is_there, saves_on_a_claim)
