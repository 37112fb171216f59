"""An optimizer's state as flat tensors named after parameters, so that files outlive the order of parameters and groups."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainwright_trainer.contract.failures import InvalidRunError

_SEPARATOR = "/"


def flatten(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """For each parameter and each of its state tensors ``<key>/<parameter name>``, for example ``exp_avg/head.weight``."""
    return {
        f"{key}{_SEPARATOR}{name}": value
        for name, parameter in module.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def parameter_name(flat: str) -> str:
    """The parameter to which a flat tensor belongs."""
    return flat.partition(_SEPARATOR)[2]


def restore(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put flat tensors back. Hyper-parameters stay those of this run: they may change between attempts.

    Raises:
        InvalidRunError: A tensor belongs to no parameter of this module.
    """
    parameters = dict(module.named_parameters())
    by_parameter: dict[nn.Parameter, dict[str, Tensor]] = {}
    for flat, tensor in tensors.items():
        key, _, name = flat.partition(_SEPARATOR)
        parameter = parameters.get(name)
        if parameter is None or (tensor.ndim and tensor.shape != parameter.shape):
            raise InvalidRunError(
                f"the checkpoint's optimizer state {flat} {tuple(tensor.shape)} fits no parameter of this run; "
                "an edited model needs a checkpoint directory of its own"
            )
        by_parameter.setdefault(parameter, {})[key] = tensor
    packed = optimizer.state_dict()
    order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    packed["state"] = {index: by_parameter[parameter] for index, parameter in enumerate(order) if parameter in by_parameter}
    # torch's own loader moves each tensor to its parameter's device, and leaves step counters where the optimizer wants them.
    optimizer.load_state_dict(packed)
