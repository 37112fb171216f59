"""From a run's ``optimizer`` to torch's."""

from __future__ import annotations

import torch
from torch import nn

from trainwright_trainer.contract.training import SGD, AdamW, Optimizer


def build_optimizer(optimizer: Optimizer, module: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The optimizer over all parameters. Biases and norms (fewer than two dimensions) are not decayed."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in parameters if parameter.ndim >= 2], "weight_decay": optimizer.weight_decay},
        {"params": [parameter for parameter in parameters if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    match optimizer:
        case AdamW():
            fused = all(parameter.is_cuda for parameter in parameters)
            return torch.optim.AdamW(groups, lr=rate, betas=optimizer.betas, eps=optimizer.eps, fused=fused)
        case SGD():
            return torch.optim.SGD(groups, lr=rate, momentum=optimizer.momentum, nesterov=optimizer.nesterov)
