"""From a run's ``optimizer`` to torch's."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from trainwright_trainer.contract.training import SGD, AdamW, Optimizer

_FUSED_ON = ("cpu", "cuda")
"""One kernel for the whole update of a parameter (torch 2.4 and later on CPUs)."""


def build_optimizer(optimizer: Optimizer, module: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The optimizer over all parameters. Biases and norms (fewer than two dimensions) are not decayed.

    Sharded parameters are grouped by the dimensions of the whole parameter, so the groups are the same under every engine.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in parameters if _dimensions(parameter) >= 2]
    others = [parameter for parameter in parameters if _dimensions(parameter) < 2]
    groups = [{"params": decayed, "weight_decay": optimizer.weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    fused = all(parameter.device.type in _FUSED_ON for parameter in parameters)
    match optimizer:
        case AdamW():
            return torch.optim.AdamW(groups, lr=rate, betas=optimizer.betas, eps=optimizer.eps, fused=fused)
        case SGD():
            # torch 2.13 has no such kernel for a DTensor.
            fused = fused and not any(isinstance(parameter, DTensor) for parameter in parameters)
            return torch.optim.SGD(groups, lr=rate, momentum=optimizer.momentum, nesterov=optimizer.nesterov, fused=fused)


def _dimensions(parameter: nn.Parameter) -> int:
    """Of the whole parameter. A DTensor says them itself; DeepSpeed flattens what it partitions, and keeps ``ds_shape``."""
    return len(getattr(parameter, "ds_shape", parameter.shape))
