"""TensorBoard: event files on the checkpoint volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FLUSH_SECONDS = 10
"""What is lost at most when a rank is killed."""


class TensorBoardSink:
    """One file an attempt, all in one directory: TensorBoard shows them as one curve.

    A file begins with the step from which what older files hold is void (``purge_step``).
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writer: SummaryWriter | None = None

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(self._directory, purge_step=step + 1, flush_secs=FLUSH_SECONDS)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
