"""Preflight: what a node must show before its ranks train on it."""

from typing import Annotated, Literal

from pydantic import Field

from trainwright_trainer.contract.base import Contract, Positive, Seconds

MIN_SHARE_ON_GPUS = 0.8
"""GPUs of one model differ by a few percent. CPUs have no such default, since pods share machines there."""

Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class Preflight(Contract):
    """Checks of device, network and volume at the start of each attempt. A node that fails one ends with NODE_UNHEALTHY.

    Wrong numbers always fail, and so does a GPU whose driver says that it is broken; a slow node fails where there is a
    threshold for it.
    """

    when: Literal["on-gpus", "always", "never"] = "on-gpus"
    budget_seconds: Seconds = 60
    """A check that would begin later is left out."""
    min_tflops: Positive | None = None
    """Of a bf16 matrix product (fp32 on CPUs), in 10^12 floating point operations per second."""
    min_share_of_median: Share | None = None
    """Of a rank's matrix product, over the median of all ranks. Default: 0.8 on GPUs, nothing on CPUs. 0 compares nothing."""
    min_memory_gigabytes_per_second: Positive | None = None
    """Read and written by a copy in the device's memory, in 10^9 bytes per second."""
    min_bus_gigabytes_per_second: Positive | None = None
    """Bus bandwidth of an all-reduce over all ranks, as nccl-tests counts it, in 10^9 bytes per second."""
    max_storage_seconds: Seconds | None = None
    """To write a file to the checkpoint volume durably, rename it, and read it back."""
    max_clock_skew_seconds: Seconds | None = None
    """Between a node's clock and rank 0's, beyond what the network makes uncertain."""

    def least_share_of_median(self, device: str) -> float:
        """What a rank on this kind of device, ``cuda`` or ``cpu``, must reach; 0 where nothing is compared."""
        if self.min_share_of_median is not None:
            return self.min_share_of_median
        return MIN_SHARE_ON_GPUS if device == "cuda" else 0.0
