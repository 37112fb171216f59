"""What every contract model shares: frozen, and closed to unknown keys. Reports take any number that was measured."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

MAX_INTEGER = 2**53
"""Largest integer that survives a round trip through JSON in every language (and through jsii)."""

Count = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Index = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Port = Annotated[int, Field(ge=1024, le=65535)]
Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)]
HostName = Annotated[str, Field(min_length=1, max_length=253)]
Variable = Annotated[str, Field(pattern=r"^[-._A-Za-z][-._A-Za-z0-9]*$", max_length=253)]
"""Name of an environment variable, as Kubernetes takes it."""
AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=4096)]
"""Of a file or a directory inside the pod."""
MountPath = Annotated[str, Field(pattern=r"^/[^:\x00]*[^:/\x00]$", max_length=1024)]
"""Of a mount, or in one: without a colon and not the root."""
EntryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$", max_length=255)]
"""Name of one entry of a directory: no slash, no leading dot."""

T = TypeVar("T")

if TYPE_CHECKING:
    ListOf = list[T] | tuple[T, ...]
else:
    ListOf = tuple[T, ...]
"""What people write as a list, in files and in Python. The model keeps a tuple, which nobody can change."""


class Contract(BaseModel):
    """A frozen model that refuses keys it does not know. Its validator is built when it is first used, so importing is quick.

    A value that is handed over is validated again: pydantic's ``model_copy`` and ``model_construct`` put anything into one.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, revalidate_instances="always"
    )

    before: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Inherited field -> fields of the class that stand before it wherever they are written. The others follow the inherited."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        fields, moved = cls.__pydantic_fields__, {name for names in cls.before.values() for name in names}
        if moved:
            order = [each for name in fields if name not in moved for each in (*cls.before.get(name, ()), name)]
            cls.__pydantic_fields__ = {name: fields[name] for name in order}


class Specified(Contract):
    """A part of a specification. What is at its default is left out, for a specification is in its run's identity: so a setting
    that a release adds renames no run.
    """

    always: ClassVar[frozenset[str]] = frozenset()
    """Fields that are there at their default too, as they were from the first release on."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        return {
            name: value for name, value in fields.items()
            if name in self.always or getattr(self, name) != type(self).model_fields[name].default
        }


class PlacedError(ValueError):
    """What a validator of a whole model says of one of its keys: the finding is on the line of that key."""

    def __init__(self, message: str, *keys: str | int) -> None:
        """``keys`` lead from the model to the place."""
        self.keys = keys
        super().__init__(message)


class Report(Contract):
    """A contract whose numbers were measured. They may be infinite or no number at all, which JSON has as text.

    Nobody chose them, so nothing is refused: a loss that overflowed must not end the run that reports it.
    """

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")


_LONGEST_SECONDS = 1e15


def _elapsed(value: object) -> object:
    if not isinstance(value, float | int):
        return value
    return 0.0 if math.isnan(value) else min(max(0.0, value), _LONGEST_SECONDS)


Elapsed = Annotated[float, BeforeValidator(_elapsed)]
"""Seconds that were measured and are added up: never below 0 and never infinite, whatever a clock said."""
