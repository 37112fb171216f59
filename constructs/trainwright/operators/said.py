"""What an object that somebody else wrote says of its run: pods by role, and what a run calls the object's own fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.handshake import TargetName
from trainwright.objects.fields import mapping, text, whole
from trainwright.units import Duration
from trainwright_trainer.contract.layout import BROUGHT_FOLDER, TRAINER_COMMAND

Tree = dict[str, Any]

GPU = re.compile(
    r"(.*/)?gpu|nvidia\.com/mig-.*|gpu\.intel\.com/.*|habana\.ai/gaudi|aws\.amazon\.com/neuron(core|device)?|google\.com/tpu"
)
"""Extended resources that ranks compute on."""

Words = Mapping[str, tuple[Any, str]]
"""Pointer in a run -> its value, and the pointer in the object where that stands."""


class Part(NamedTuple):
    """Pods that are alike."""

    role: str
    """As the target calls it; of a further role any name."""
    pods: int
    pointer: str
    """Of the pod template."""
    template: Mapping[str, Any]
    ranks: bool = True
    further: bool = False
    """Whether the topology does not know it, so that the run has to bring it."""
    container: str = ""
    """The one that trains; empty where it has no name that the operator knows."""
    words: Mapping[str, tuple[Any, str]] = {}
    """Pointer below the role -> as of the run."""
    elsewhere: Mapping[str, str] = {}
    """Pointer below the template -> where the object says that, if not there."""
    marks: Mapping[str, str] = {}
    """Labels by which the operator tells these pods from those of other roles."""

    def source(self, below: str) -> str:
        """The pointer in the object of what is below the template."""
        for there, place in self.elsewhere.items():
            if below == there or below.startswith(f"{there}/"):
                return place + below.removeprefix(there)
        return self.pointer + below


def is_supervisor(command: object) -> bool:
    """Whether the words of a container start our supervisor, of its image or brought along."""
    first = str(command[0]) if isinstance(command, list) and command else ""
    return first == TRAINER_COMMAND[0] or first.startswith(f"{BROUGHT_FOLDER}/")


class Said(NamedTuple):
    """What one object says."""

    target: TargetName
    parts: tuple[Part, ...]
    """The pods that run the work first, and then those that it starts."""
    kinds: tuple[str, ...]
    """Kinds of topology that it may carry; the first one where its command says nothing."""
    words: Mapping[str, tuple[Any, str]] = {}
    runtime: Mapping[str, Any] | None = None
    """An object of somebody else that it refers to and that has the rest of its pods. ``parts`` have what it says itself."""
    instead: Said | None = None
    """The same where a run cannot refer to that object, whose parts are then the run's own."""
    claims: Mapping[str, Mapping[str, Any]] = {}
    """Claims that the controller makes for the pods, by the names that ``parts`` mount them by."""
    merged: Mapping[str, str] = {}
    """Pointer of a number -> the sentence on what a run makes of it, up to the numbers that its pods have."""
    release: tuple[int, int] | None = None
    """The newest of its operator that reads the object as it stands, where that is not the newest of all."""


def count(owner: object, pointer: str, default: int = 1) -> int:
    """A number of pods. What a template has left unrendered is refused before anybody asks here."""
    found = whole(owner, pointer, default)
    return default if found is None else found


def asked(container: object) -> dict[str, Any]:
    """What a container asks for: its limits, and requests without one."""
    return {**mapping(container, "/resources/requests"), **mapping(container, "/resources/limits")}


def stated(owner: object, places: Mapping[str, str]) -> Iterator[tuple[str, tuple[int, str]]]:
    """Words for whole numbers that an object states: pointer there -> pointer in the run."""
    for there, here in places.items():
        if (value := whole(owner, there)) is not None:
            yield here, (value, there)


def seconds(owner: object, there: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """A deadline in seconds, as the run's ``deadline``."""
    if (value := whole(owner, there)) and 0 < value < 2**31:
        yield "/deadline", (Duration(value).canonical, there)


def variable(one: Mapping[str, Any]) -> Any:
    """The value of a variable; None where a run has no word for it."""
    source = mapping(one, "/valueFrom")
    if not source:
        value = one.get("value", "")
        return "" if value is None else scalar(value)
    if name := text(source, "/secretKeyRef/name"):
        return {"secret": name, "key": text(source, "/secretKeyRef/key")}
    if name := text(source, "/configMapKeyRef/name"):
        return {"config_map": name, "key": text(source, "/configMapKeyRef/key")}
    field = text(source, "/fieldRef/fieldPath")
    return {"field": field} if field else None


def scalar(value: Any) -> str:
    """As text, for those who forget the quotes; the API server would refuse it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


TORCH = ("ddp", "zero1", "zero2", "zero3")
ANYTHING = ("independent", *TORCH, "jax")
"""Kinds of topology whose pods get an index, and find each other or not."""
