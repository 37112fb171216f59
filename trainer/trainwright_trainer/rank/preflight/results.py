"""What the checks of a node found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Results:
    """None for what was not checked."""

    tflops: float | None = None
    share_of_median: float | None = None
    """Of the slowest rank on this node."""
    memory_bytes_per_second: float | None = None
    storage_seconds: float | None = None
    clock_skew_seconds: float | None = None
    bus_bytes_per_second: float | None = None

    def metrics(self) -> dict[str, float]:
        """By name, as in the table of metrics."""
        values = {
            "trainwright_preflight_tflops": self.tflops,
            "trainwright_preflight_share_of_median": self.share_of_median,
            "trainwright_preflight_memory_bytes_per_second": self.memory_bytes_per_second,
            "trainwright_preflight_storage_seconds": self.storage_seconds,
            "trainwright_preflight_clock_skew_seconds": self.clock_skew_seconds,
            "trainwright_preflight_bus_bytes_per_second": self.bus_bytes_per_second,
        }
        return {name: value for name, value in values.items() if value is not None}
