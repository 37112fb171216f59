"""Sizes that a launcher's command states, brought down to the pods that are played: ``--nnodes 4``, ``-np 16``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from trainwright.command.launchers import MPI_LAUNCHERS, Fact, Launch, launches
from trainwright.command.reading import read
from trainwright.operators.operator import Size
from trainwright.program.slots import PER_POD, PROCESSES
from trainwright.rehearsal.stated.kinds import Container
from trainwright.rehearsal.stated.objects import Objects
from trainwright.rendezvous.mpi import slots_of

_ALL_OF_A_POD = ("auto", "gpu")
"""What torchrun takes for a number of ranks."""


def resize_commands(here: Objects, before: Objects, size: Size, ranks: int | None) -> tuple[Objects, list[str]]:
    """The objects with smaller numbers in their commands, and each change: ``torchrun --nnodes 4 -> 2``.

    Args:
        here: with the pods that are played.
        before: with all pods.
        size: of what is played.
        ranks: of all pods, where the run's specification says it; else a host file does.
    """
    now, stated = _starting(here), _starting(before)
    of_hosts, changes = ranks or _slots(here), dict[str, None]()

    def most(launch: Launch, option: str, text: str) -> int | None:
        if launch.name in MPI_LAUNCHERS:
            return of_hosts if option in PROCESSES else size.processes if option in PER_POD else None
        match launch.launcher.says.get(option):
            case Fact.NODES:
                return size.nodes
            case Fact.EACH:
                return size.processes
            case Fact.RANKS if text.isdecimal():
                return now[launch.name] * (size.processes or int(text) // stated[launch.name])
        return None

    def resized(container: Container) -> Container:
        words, cut = [*container.command, *container.args], len(container.command)
        for launch in launches(read(tuple(words))):
            for option, (value, *_) in ((option, values) for option, values in launch.options if values):
                limit, text = most(launch, option, value.text), value.text
                smaller = text if limit is None else _at_most(text, limit)
                if smaller != text:
                    words = _replaced(words, option, text, smaller)
                    changes[f"{launch.program} {option} {text} -> {smaller}"] = None
        return container.model_copy(update={"command": words[:cut], "args": words[cut:]})

    slots = tuple(
        replace(slot, spec=slot.spec.model_copy(update={"containers": [*map(resized, slot.spec.containers)]}))
        for slot in here.slots
    )
    return (replace(here, slots=slots) if changes else here), list(changes)


def _starting(objects: Objects) -> Counter[str]:
    """How many pods start each launcher."""
    return Counter(
        name for slot in objects.slots for name in {
            launch.name for one in slot.spec.containers for launch in launches(read((*one.command, *one.args)))
        }
    )  # fmt: skip


def _slots(objects: Objects) -> int | None:
    """Of all pods, by the list of hosts that the controller or the run brings; None where there is none."""
    names = {slot.host_name for slot in objects.slots}
    lists = (slots_of(text) for config_map in objects.config_maps.values() for text in config_map.data.values())
    return next((sum(one.values()) for one in lists if one and {host.partition(".")[0] for host in one} <= names), None)


def _at_most(text: str, limit: int) -> str:
    """A number, or a range of numbers, none of which is larger."""
    if text in _ALL_OF_A_POD:
        return str(limit)
    return re.sub(r"\d+", lambda number: str(min(int(number[0]), limit)), text) if re.fullmatch(r"\d+(:\d+)?", text) else text


def _replaced(words: Sequence[str], option: str, text: str, smaller: str) -> list[str]:
    """Words and shell texts with another value of an option, in each way of writing it."""
    name = re.escape(option[:2]) + re.escape(option[2:]).replace(r"\-", "[-_]")
    stated = rf"(?<![^\s\0])({name}(?:=|[\s\0]+)[\"']?){re.escape(text)}(?![^\s\0\"';|&)])"
    return re.sub(stated, rf"\g<1>{smaller}", "\0".join(words)).split("\0")
