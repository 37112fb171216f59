"""The scale of fp16 losses: small gradients vanish in fp16, so losses grow before the backward pass and gradients shrink after.

The scale follows overflows as in Micikevicius et al. 2018 (arXiv:1710.03740, section 3.2) with the numbers of
``torch.amp.GradScaler``. That class is not used, because it looks for infinities in each rank's own gradients, and the ranks of a
sharded model have different ones; here the global norm, equal on all ranks, is the judge.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainwright_trainer.contract.failures import DivergedError

_START, _SMALLEST = 2.0**16, 2.0**-14
_GROWTH, _BACKOFF, _PATIENCE = 2.0, 0.5, 2000


class LossScale:
    """Doubles after 2,000 steps without overflow and halves at each one."""

    def __init__(self) -> None:
        self.factor = _START
        self._good_steps = 0

    def learn(self, finite: bool) -> None:
        """Take note of a step. Raises :class:`DivergedError` when no scale is small enough."""
        if not finite:
            self.factor, self._good_steps = self.factor * _BACKOFF, 0
            if self.factor < _SMALLEST:
                raise DivergedError(f"gradients overflow fp16 at every loss scale down to {_SMALLEST:g}; use precision bf16")
            return
        self._good_steps += 1
        if self._good_steps == _PATIENCE:
            self.factor, self._good_steps = self.factor * _GROWTH, 0

    def state(self) -> dict[str, Tensor]:
        """For the checkpoint."""
        return {"loss_scale": torch.tensor(self.factor, dtype=torch.float64), "good_steps": torch.tensor(self._good_steps)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on where :meth:`state` was called; a checkpoint without one leaves the start."""
        if "loss_scale" in state:
            self.factor, self._good_steps = float(state["loss_scale"]), int(state["good_steps"])
