"""A container that works: what it runs, and what it has of its pod and its controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from trainwright.command.launchers import Launch, launches
from trainwright.command.model import Assignment, Command, Simple, Word
from trainwright.command.names import SHELLS
from trainwright.command.reading import interpreter, script
from trainwright.findings import Where
from trainwright.findings.locate import escape
from trainwright.objects.fields import items, text, texts
from trainwright.program.launching import World
from trainwright.program.slots import Slots

Tree = Mapping[str, Any]


class Mount(NamedTuple):
    """A volume in a container."""

    path: str
    volume: Tree
    place: str
    """Pointer in the container."""
    read_only: bool
    filled: bool
    """Whether something before it, such as an init container, may write into it."""

    @property
    def claim(self) -> str:
        """Empty where it is no claim."""
        return text(self.volume, "/persistentVolumeClaim/claimName")

    @property
    def keeps(self) -> bool:
        """Whether what is written there outlives the pod."""
        return not self.read_only and not _PASSING & self.volume.keys()


_PASSING = frozenset({"emptyDir", "configMap", "secret", "downwardAPI", "projected", "image"})


@dataclass(frozen=True, eq=False)
class Program:
    """One container, with the place of all that is in it."""

    command: Command
    container: Tree
    pod: Tree
    """Spec of its pod."""
    where: Callable[[str], Where]
    """Of a pointer in the container; of ``/files/PATH``, that file."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path -> text, of those that come with the run."""
    world: World | None = None
    """The pods that it starts ranks in; None where nothing is known of them, or where the plan has been asked."""
    hosts: frozenset[str] | None = None
    """Names by which pods find each other."""
    slots: Slots | None = None
    gpus: int = 0
    """Of a pod of ranks, where another container than this one asks for them."""
    ranks: int = 0
    """In each of these pods, where that is known."""
    judged: bool = False
    """Whether a run states it, whose variables are judged wherever they are stated."""
    process_1: bool = True
    """Whether the command is process 1, and not one that another program of ours starts."""

    @property
    def at(self) -> str:
        """Pointer of the command."""
        first = len(texts(self.container, "/command"))
        read = self.command.shell_text
        return "/command" if (first > read if read is not None else first) else "/args"

    @cached_property
    def env(self) -> dict[str, str]:
        """Variables that stand in the container as text, but for those that the command sets itself."""
        own = {name for name, _ in self.command.sets()}
        stated = {text(one, "/name"): one.get("value") for _, one in items(self.container, "/env")}
        return {name: value for name, value in stated.items() if isinstance(value, str) and name not in own}

    @property
    def has(self) -> set[str]:
        """Variables that the container has, whatever they hold."""
        return {text(one, "/name") for _, one in items(self.container, "/env")}

    def stated(self) -> Iterator[tuple[str, str, str]]:
        """Name, text and place of each variable that the container has, or that its command sets once."""
        env = self.env
        for number, one in items(self.container, "/env"):
            if text(one, "/name") in env and text(one, "/value"):
                yield text(one, "/name"), text(one, "/value"), f"/env/{number}"
        for place, command in self.commands():
            sets = list(_for_all(command))
            names = [name for name, _ in sets]
            yield from ((name, value, place) for name, word in sets if (value := word.resolved({})) and names.count(name) == 1)

    def mounts(self) -> Iterator[Mount]:
        volumes = {text(one, "/name"): one for _, one in items(self.pod, "/volumes")}
        before = (mount for _, one in items(self.pod, "/initContainers") for _, mount in items(one, "/volumeMounts"))
        filled = {text(mount, "/name") for mount in before}
        for number, mount in items(self.container, "/volumeMounts"):
            name, path = text(mount, "/name"), text(mount, "/mountPath").rstrip("/")
            fixed = mount.get("readOnly") is True or not {"configMap", "secret"}.isdisjoint(volumes.get(name, {}))
            yield Mount(path, volumes.get(name, {}), f"/volumeMounts/{number}/mountPath", fixed, name in filled)

    def mount_of(self, path: str) -> Mount | None:
        """The nearest mount above a path."""
        above = [mount for mount in self.mounts() if path == mount.path or path.startswith(f"{mount.path}/")]
        return max(above, key=lambda mount: len(mount.path), default=None)

    def shells(self) -> Iterator[Text]:
        """What its shells read: the text in the command, and scripts among the files that it starts."""
        first, last = self.command.simple[0], self.command.process_1
        if self.command.shell_text is not None:
            inside = [one for one in self.command.simple[1:] if one.within.count("shell") == 1]
            own = tuple(one._replace(within=one.within[1:]) for one in inside)
            yield Text(self.at, own, first.words[: self.command.shell_text], first.program in SHELLS and not first.stays)
        for simple in self.command.simple:
            words = simple.own
            number = next((number for number, word in enumerate(words) if word.text in self.files), None)
            if number is None:
                continue
            path = words[number].text
            shell = words[:number] or interpreter(self.files[path])
            if not shell or shell[0].base in SHELLS:
                starts = simple == last and not simple.stays
                yield Text(f"/files/{escape(path)}", script(self.files[path]).simple, shell or words[:1], starts)

    def commands(self) -> Iterator[tuple[str, Command]]:
        """The command and those scripts, each with its place."""
        yield self.at, self.command
        yield from ((one.place, Command(one.simple)) for one in self.shells() if one.place.startswith("/files/"))


def _for_all(command: Command) -> Iterator[Assignment]:
    """What a command sets, without what it sets for one program alone (``A=1 python prepare.py``) beside a launcher."""
    launched = [launch.simple for launch in launches(command)]
    others = [one for one in command.simple if one.words and one not in launched] if launched else []
    aside = [one for one in others if one.program not in SHELLS | _SET]
    yield from command._replace(simple=tuple(one._replace(sets=()) if one in aside else one for one in command.simple)).sets()


_SET = frozenset({"export", "declare", "typeset", "readonly", "local", "for", "read"})
"""Words of a shell after which a variable is set for all that follows."""


class Text(NamedTuple):
    """What one shell reads."""

    place: str
    simple: tuple[Simple, ...]
    """Seen from the text: what stands in it alone has nothing around it."""
    shell: Sequence[Word]
    """The shell with its options, and the script that nothing names a shell for in its place."""
    first: bool
    """Whether the shell is process 1 when it begins."""


Rule = Callable[[Program], Iterator[Any]]


def shown(words: Sequence[Word]) -> str:
    """A command, short enough for a message."""
    text = " ".join(" ".join(word.text.split()) for word in words)
    return text if len(text) <= 60 else f"{text[:59]}…"


def launches_in(simple: Simple) -> tuple[Launch, ...]:
    """The launcher that one simple command starts."""
    return launches(Command((simple,)))
