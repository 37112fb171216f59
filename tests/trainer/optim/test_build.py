from __future__ import annotations

import pytest
import torch
from torch import nn

from trainwright_trainer.contract.training import SGD, AdamW
from trainwright_trainer.training.assembly import build_optimizer


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


@pytest.mark.parametrize("optimizer", [AdamW(kind="adamw"), SGD(kind="sgd")])
def test_one_kernel_computes_what_many_do(optimizer: AdamW | SGD) -> None:
    torch.manual_seed(0)
    fused, plain = module(), module()
    plain.load_state_dict(fused.state_dict())
    optimizers = [build_optimizer(optimizer, each, 0.1) for each in (fused, plain)]
    assert all(group["fused"] for group in optimizers[0].param_groups)
    for group in optimizers[1].param_groups:
        group["fused"] = False
    inputs = torch.randn(5, 4)
    for _ in range(3):
        for each, update in zip((fused, plain), optimizers, strict=True):
            each(inputs).square().sum().backward()
            update.step()
            update.zero_grad()
    for ours, theirs in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_deepspeed_partitioned_is_grouped_by_its_whole_shape() -> None:
    built = module()
    for parameter in built.parameters():
        parameter.ds_shape = parameter.shape  # type: ignore[attr-defined]
        parameter.data = torch.empty(0)
    groups = build_optimizer(AdamW(kind="adamw", weight_decay=0.1), built, 0.5).param_groups
    assert [[len(parameter.ds_shape) for parameter in group["params"]] for group in groups] == [[2], [1, 1, 1]]
