"""Update: from the summed gradients of a step to new weights, with clipping, the scale of fp16 losses and the finite check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainwright_trainer.contract.failures import DivergedError
from trainwright_trainer.contract.training import Precision
from trainwright_trainer.engine.base import StepResult

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


_CLIP_EPSILON = 1e-6
"""Added to the norm that is divided by, as ``torch.nn.utils.clip_grad_norm_`` does."""


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """What a run says of its updates."""

    precision: Precision
    clip_norm: float | None
    """Largest global norm of the gradients."""
    skips: int
    """Steps in a row that may be left out because loss or gradients are not finite."""


class Update:
    """The last part of every step of an engine that steps torch's optimizers itself.

    A step is normally judged after it was queued, so that a GPU never waits for the host. Where a step may be left out (fp16, or
    a run that skips steps that are not finite), the host has to know before the optimizer moves, which costs one wait a step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, rules: UpdateSettings) -> None:
        self._optimizer, self._rules = optimizer, rules
        self._scale = LossScale() if rules.precision == "fp16" else None
        self._skipped = 0
        self.keeps_gradients = False
        """Whether gradients go on to take memory after a step, as zeros, where the next one adds to them."""

    @property
    def scale(self) -> float:
        """Factor of every loss before its backward pass."""
        return 1.0 if self._scale is None else self._scale.factor

    def apply(self, loss: Tensor, scaled_norm: Tensor, gradients: Sequence[Tensor], rate: float) -> StepResult:
        """Clip, step and forget the gradients.

        Args:
            loss: Mean over the global batch, unscaled, equal on all ranks.
            scaled_norm: Global norm of the gradients as they are, equal on all ranks.
            gradients: This rank's gradients or its shards of them, which the optimizer will read.
            rate: Learning rate.

        Raises:
            DivergedError: One more step is not finite than the run allows.
        """
        scale = self.scale  # that of these gradients: a good step may be followed by a larger one
        norm = scaled_norm / scale
        finite = torch.isfinite(norm) & torch.isfinite(loss)
        if (self._scale is None and not self._rules.skips) or self._may_step(finite, loss, norm):
            self._step(norm, gradients, rate, scale)
        self._optimizer.zero_grad(set_to_none=not self.keeps_gradients)
        allowed = self._scale is not None or self._rules.skips > 0
        return StepResult(loss, norm, (lambda: True) if allowed else read_later(finite))

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on besides weights and optimizer; nothing for most runs."""
        state = {} if self._scale is None else self._scale.state()
        return {**state, _SKIPPED: torch.tensor(self._skipped)} if self._rules.skips else state

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on where :meth:`state` was called; a run that has become fp16 since then starts with a fresh scale."""
        if self._scale is not None:
            self._scale.load(state)
        self._skipped = int(state.get(_SKIPPED, 0))

    def _may_step(self, finite: Tensor, loss: Tensor, norm: Tensor) -> bool:
        good = bool(finite)
        overflow = self._scale is not None and bool(torch.isfinite(loss))
        if self._scale is not None:
            self._scale.learn(good)
        if good:
            self._skipped = 0
        elif not overflow:
            self._skipped += 1
            if self._skipped > self._rules.skips:
                after = f" after {self._rules.skips} that were skipped" if self._rules.skips else ""
                raise DivergedError(f"a step is not finite{after}: loss {float(loss):g}, gradient norm {float(norm):g}")
        return good

    def _step(self, norm: Tensor, gradients: Sequence[Tensor], rate: float, scale: float) -> None:
        factor: Tensor | float = 1 / scale
        if self._rules.clip_norm is not None:
            factor = torch.clamp(self._rules.clip_norm / (norm + _CLIP_EPSILON), max=1.0) * factor
        if isinstance(factor, Tensor) or factor != 1:
            _scale_all(gradients, factor)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()


_SKIPPED = "skipped_in_a_row"


def _scale_all(gradients: Sequence[Tensor], factor: Tensor | float) -> None:
    """In as few kernels as ``torch.nn.utils.clip_grads_with_norm_`` needs, whose own function takes parameters only."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for gradient in gradients:
        by_device.setdefault(gradient.device, []).append(gradient)
    for device, group in by_device.items():
        torch._foreach_mul_(group, factor.to(device) if isinstance(factor, Tensor) else factor)


def read_later(flag: Tensor) -> Callable[[], bool]:
    """Start the copy of a flag to the host now, and read it whenever it is called."""
    if flag.device.type != "cuda":
        return lambda: bool(flag)
    host = torch.empty((), dtype=torch.bool, pin_memory=True)
    host.copy_(flag, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def read() -> bool:
        copied.synchronize()
        return bool(host)

    return read
