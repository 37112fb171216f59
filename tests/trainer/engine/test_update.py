"""From summed gradients to weights: what a step of fp16 does, whatever becomes of the loss scale after it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainwright_trainer.engine import update
from trainwright_trainer.engine.update import Update, UpdateSettings

GRADIENT = torch.tensor([0.5, -0.25, 0.125])


@pytest.mark.parametrize("clip_norm", [None, 0.25])
def test_a_step_divides_by_the_scale_of_its_own_loss(clip_norm: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale doubles after every second step here; factors of two change no bit."""
    monkeypatch.setattr(update, "_PATIENCE", 2)
    weight = nn.Parameter(torch.zeros(3))
    steps = Update(torch.optim.SGD([weight], lr=1.0), UpdateSettings("fp16", clip_norm, skips=0))
    moves, scales = list[torch.Tensor](), list[float]()
    for _ in range(5):
        before = weight.detach().clone()
        scales.append(steps.scale)
        weight.grad = GRADIENT * steps.scale
        steps.apply(torch.tensor(1.0), weight.grad.norm(), [weight.grad], rate=1.0)
        moves.append(before - weight.detach())
    assert scales == [2.0**16, 2.0**16, 2.0**17, 2.0**17, 2.0**18]
    wanted = GRADIENT if clip_norm is None else GRADIENT * (clip_norm / (GRADIENT.norm() + 1e-6))
    for move in moves:
        torch.testing.assert_close(move, wanted)
