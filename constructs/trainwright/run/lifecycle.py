"""What watches a run's ranks and checks their nodes: how long a rank may make no progress in each of its phases, and what a
node must show before its ranks train on it.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.model import Model, quantity_field
from trainwright.units import Duration
from trainwright_trainer.contract.spec import Preflight as Checks
from trainwright_trainer.contract.spec import ShareOfMedian
from trainwright_trainer.contract.spec import Watchdog as Limits

_LIMITS = Limits.model_construct()


class Watchdog(Model):
    """When a rank counts as hung. The run then dumps all stacks and ends with 204, which is retried."""

    starting: Duration = quantity_field(Duration(int(_LIMITS.starting_seconds)))
    """Imports, the process group, preflight, data and model."""
    restoring: Duration = quantity_field(Duration(int(_LIMITS.restoring_seconds)))
    """Verifying and reading a checkpoint."""
    warming_up: Duration = quantity_field(Duration(int(_LIMITS.warming_up_seconds)))
    """The first batch, compilation included."""
    training: Duration = quantity_field(Duration(int(_LIMITS.training_seconds)))
    """A step of training or a batch of evaluation, at least."""
    slowdown: Annotated[float, Field(gt=1, le=1e6)] = _LIMITS.slowdown
    """The limit of a step is this many times the median of the latest steps, if that is more than `training`; likewise for
    saves.
    """
    saving: Duration = quantity_field(Duration(int(_LIMITS.saving_seconds)))
    """A save, at least."""


_CHECKS = Checks.model_construct()

Figure = Annotated[float, Field(gt=0, le=1e15)]


class Preflight(Model):
    """Checks of devices, network and volume at the start of each attempt. If a node fails one, its pod ends with 201."""

    when: Literal["on-gpus", "always", "never"] = _CHECKS.when
    """Which runs are checked."""
    budget: Duration = quantity_field(Duration(int(_CHECKS.budget_seconds)))
    """A check that would begin later is skipped."""
    min_tflops: Figure | None = None
    """Slowest matrix product (bf16, on CPUs fp32), in 10^12 operations per second; wrong numbers always fail."""
    min_share_of_median: ShareOfMedian | None = None
    """Slowest rank's matrix product over the median of all ranks; by default 0.8 on GPUs, 0 compares nothing."""
    min_memory_gigabytes_per_second: Figure | None = None
    """Slowest copy in a device's memory, in 10^9 bytes per second, read and written."""
    min_bus_gigabytes_per_second: Figure | None = None
    """Slowest all-reduce over all ranks, as bus bandwidth of nccl-tests, in 10^9 bytes per second."""
    max_storage: Duration | None = None
    """Longest time to write a file to the checkpoint volume durably, rename it and read it back."""
    max_clock_skew: Duration | None = None
    """Largest difference between a node's clock and that of rank 0's node."""

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
