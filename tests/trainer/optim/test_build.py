from __future__ import annotations

import torch
from torch import nn

from trainwright_trainer.contract.training import SGD, AdamW
from trainwright_trainer.optim.build import build_optimizer


def module() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))


def test_biases_and_norms_are_not_decayed() -> None:
    built = build_optimizer(AdamW(kind="adamw", weight_decay=0.1, betas=(0.8, 0.9)), module(), 0.5)
    assert isinstance(built, torch.optim.AdamW)
    decays = {tuple(parameter.shape): group["weight_decay"] for group in built.param_groups for parameter in group["params"]}
    assert decays == {(3, 4): 0.1, (3,): 0.0}
    assert all(group["betas"] == (0.8, 0.9) and group["lr"] == 0.5 for group in built.param_groups)


def test_frozen_parameters_are_left_out() -> None:
    built = module()
    for parameter in built[0].parameters():  # type: ignore[index]
        parameter.requires_grad_(False)
    optimizer = build_optimizer(SGD(kind="sgd", momentum=0.5, nesterov=True), built, 0.1)
    assert isinstance(optimizer, torch.optim.SGD)
    assert [parameter.ndim for group in optimizer.param_groups for parameter in group["params"]] == [1, 1]
    assert all(group["nesterov"] and group["momentum"] == 0.5 for group in optimizer.param_groups)
