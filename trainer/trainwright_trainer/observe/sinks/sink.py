"""What every sink can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Sink(Protocol):
    """Written by rank 0. May raise whatever its library raises."""

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        """An attempt goes on after ``step``. What an earlier one wrote of later steps is to be replaced.

        Args:
            step: The last step that is done.
            config: The run's work, as its specification has it.
        """

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Values by metric name."""

    def close(self) -> None:
        """Nothing follows."""
