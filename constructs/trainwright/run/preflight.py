"""Preflight: what a node must show before its ranks train on it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.model import Model, quantity_field
from trainwright.units import Duration
from trainwright_trainer.contract.preflight import Preflight as Checks
from trainwright_trainer.contract.preflight import Share

_CHECKS = Checks.model_construct()

Figure = Annotated[float, Field(gt=0, le=1e15)]


class Preflight(Model):
    """Checks of devices, network and volume at the start of each attempt. A node that fails one ends its pod with 201."""

    when: Literal["on-gpus", "always", "never"] = _CHECKS.when
    """Which runs are checked."""
    budget: Duration = quantity_field(Duration(int(_CHECKS.budget_seconds)))
    """A check that would begin later is left out."""
    min_tflops: Figure | None = None
    """Slowest matrix product (bf16, on CPUs fp32), in 10^12 operations per second; wrong numbers always fail."""
    min_share_of_median: Share | None = None
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
