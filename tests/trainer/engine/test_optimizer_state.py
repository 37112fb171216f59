from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import SGD, AdamW, Optimizer
from trainwright_trainer.engine import whole_state
from trainwright_trainer.training.assembly import build_optimizer


def trained(kind: Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    optimizer = build_optimizer(kind, module, 0.1)
    for _ in range(3):
        step(module, optimizer)
    return module, optimizer


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    module(torch.ones(2, 3)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", [AdamW(kind="adamw"), SGD(kind="sgd"), SGD(kind="sgd", momentum=0)], ids=repr)
def test_a_restored_optimizer_goes_on_with_the_same_bits(kind: Optimizer) -> None:
    module, optimizer = trained(kind)
    saved = {name: tensor.clone() for name, tensor in whole_state.flatten_optimizer(module, optimizer).items()}
    other = copy.deepcopy(module)
    fresh = build_optimizer(kind, other, 0.1)
    whole_state.restore_optimizer(other, fresh, saved)
    step(module, optimizer)
    step(other, fresh)
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_names() -> None:
    flat = whole_state.flatten_optimizer(*trained(AdamW(kind="adamw")))
    assert {"exp_avg/0.weight", "exp_avg_sq/2.bias", "step/1.bias"} <= flat.keys()
    assert float(flat["step/1.bias"]) == 3


def test_another_models_state() -> None:
    module, optimizer = trained(AdamW(kind="adamw"))
    flat = whole_state.flatten_optimizer(module, optimizer)
    with pytest.raises(InvalidRunError, match=r"exp_avg/9\.weight"):
        whole_state.restore_optimizer(module, optimizer, {**flat, "exp_avg/9.weight": torch.zeros(1)})
    with pytest.raises(InvalidRunError, match=r"exp_avg/0\.weight \(7,\) fits no parameter"):
        whole_state.restore_optimizer(module, optimizer, {**flat, "exp_avg/0.weight": torch.zeros(7)})
