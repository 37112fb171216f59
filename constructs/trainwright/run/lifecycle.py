"""What watches a run's ranks and checks their nodes: how long a rank may make no progress in each of its phases, and what a
node must show before its ranks train on it. The contract has these settings; a run writes their times with units.
"""

from typing import Any, ClassVar, Self

from pydantic import create_model, model_validator

from trainwright.model import Model, quantity_field, type_of
from trainwright.units import Duration
from trainwright_trainer.contract import spec
from trainwright_trainer.contract.base import Contract


def _with_units(settings: type[Contract]) -> Any:
    """A model with the same fields, of which those in seconds are durations, and lose ``_seconds`` from their names."""
    fields: dict[str, Any] = {"texts_of": (ClassVar[type[Contract]], settings)}
    for name, info in settings.model_fields.items():
        if not name.endswith("_seconds"):
            fields[name] = (type_of(info), info.default)
        elif info.default is None:
            fields[name.removesuffix("_seconds")] = (Duration | None, None)
        else:
            fields[name.removesuffix("_seconds")] = (Duration, quantity_field(Duration(int(info.default))))
    return create_model(settings.__name__, __base__=Model, __module__=__name__, **fields)


class Watchdog(_with_units(spec.Watchdog)):  # type: ignore[misc]
    __doc__ = spec.Watchdog.__doc__


class Preflight(_with_units(spec.Preflight)):  # type: ignore[misc]
    __doc__ = spec.Preflight.__doc__

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Keys of the figures that a node must reach."""
        figures = (key for key in type(self).model_fields if key.startswith(("min_", "max_")))
        return tuple(key for key in figures if getattr(self, key) is not None)

    @model_validator(mode="after")
    def _measures_what_it_compares(self) -> Self:
        if self.when == "never" and self.thresholds:
            raise ValueError(f"when: never measures nothing; remove {' and '.join(self.thresholds)}, or write when: always")
        return self
