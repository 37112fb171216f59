"""Watchdog: how long a rank may make no progress, in each of its phases."""

from typing import Annotated

from pydantic import Field

from trainwright_trainer.contract.base import Contract, Seconds


class Watchdog(Contract):
    """Limits in seconds. Whoever exceeds one is taken to hang, and the run ends with HANG after a dump of all stacks."""

    starting_seconds: Seconds = 1800
    """Imports, the process group, the data and the model."""
    restoring_seconds: Seconds = 3600
    """A terabyte at 300 MB/s."""
    warming_up_seconds: Seconds = 1800
    """The first batch, compilation included."""
    training_seconds: Seconds = 240
    """A step of training or a batch of evaluation, at least; below the 300 s after which a collective gives up by itself."""
    slowdown: Annotated[float, Field(gt=1, le=1e6, allow_inf_nan=False)] = 10
    """Where this many times the median of the latest steps is more than ``training_seconds``, it holds instead."""
    saving_seconds: Seconds = 1200
    """A save, at least; ``slowdown`` times ``lifecycle.save_seconds`` holds where that is more."""
