"""Watchdog: how long a rank may make no progress, in each of its phases."""

from typing import Annotated

from pydantic import Field

from trainwright.model import Model, quantity_field
from trainwright.units import Duration
from trainwright_trainer.contract.watchdog import Watchdog as Limits

_LIMITS = Limits.model_construct()


class Watchdog(Model):
    """When a rank counts as hung. The run then dumps all stacks and ends with 204, to be tried again."""

    starting: Duration = quantity_field(Duration(int(_LIMITS.starting_seconds)))
    """Imports, the process group, preflight, data and model."""
    restoring: Duration = quantity_field(Duration(int(_LIMITS.restoring_seconds)))
    """Verifying and reading a checkpoint."""
    warming_up: Duration = quantity_field(Duration(int(_LIMITS.warming_up_seconds)))
    """The first batch, compilation included."""
    training: Duration = quantity_field(Duration(int(_LIMITS.training_seconds)))
    """A step of training or a batch of evaluation, at least."""
    slowdown: Annotated[float, Field(gt=1, le=1e6)] = _LIMITS.slowdown
    """Where this many times the median of the latest steps is more than `training`, it holds instead; for saves as well."""
    saving: Duration = quantity_field(Duration(int(_LIMITS.saving_seconds)))
    """A save, at least."""
