"""The state of engines whose every rank holds all of it: two files that rank 0 writes, and reads for everybody."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from trainwright_trainer.checkpoint import CommittedFiles, tensor_file
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.engine.base import Tensors
from trainwright_trainer.engine.update import Update
from trainwright_trainer.engine.world import World

MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
UPDATE_FILE = "update.safetensors"
"""What updates depend on besides: only where there is something."""


def files(module: nn.Module, optimizer: torch.optim.Optimizer, update: Update) -> dict[str, Tensors]:
    """The files of a checkpoint with their tensors, which are the live ones."""
    state: dict[str, Tensors] = {MODEL_FILE: weights(module), OPTIMIZER_FILE: flatten_optimizer(module, optimizer)}
    if extra := update.state():
        state[UPDATE_FILE] = extra
    return state


def load(
    checkpoint: CommittedFiles, module: nn.Module, optimizer: torch.optim.Optimizer, update: Update, world: World
) -> None:
    """Take over a checkpoint. Raises :class:`InvalidRunError` where it is another model's or optimizer's."""
    load_weights(module, _from_rank_0(checkpoint, MODEL_FILE, world))
    restore_optimizer(module, optimizer, _from_rank_0(checkpoint, OPTIMIZER_FILE, world))
    update.load(_from_rank_0(checkpoint, UPDATE_FILE, world) if UPDATE_FILE in checkpoint.names() else {})


def weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; a tied parameter appears once, under its first name."""
    tied = dict(module.named_parameters(remove_duplicate=False)).keys() - dict(module.named_parameters()).keys()
    return {name: tensor for name, tensor in module.state_dict().items() if name not in tied}


def persistent_buffers(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers that belong into a checkpoint, such as the statistics of batch norm."""
    saved = module.state_dict().keys()
    return ((name, buffer) for name, buffer in module.named_buffers() if name in saved)


def load_weights(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Overwrite weights and buffers. Raises :class:`InvalidRunError` where names or shapes differ."""
    refuse_other_model(
        {name: tuple(tensor.shape) for name, tensor in weights(module).items()},
        {name: tuple(tensor.shape) for name, tensor in tensors.items()},
    )
    module.load_state_dict(tensors, strict=False)


def refuse_other_model(ours: dict[str, tuple[int, ...]], theirs: dict[str, tuple[int, ...]]) -> None:
    """Raises :class:`InvalidRunError` with the first weight whose shape in the run is not that in the checkpoint."""
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise InvalidRunError(
                f"the checkpoint holds another model: {name} is {theirs.get(name, 'absent')} there and "
                f"{ours.get(name, 'absent')} in this run; an edited model needs a checkpoint directory of its own"
            )


def _from_rank_0(checkpoint: CommittedFiles, file: str, world: World) -> dict[str, Tensor]:
    """Rank 0 reads, the others receive: one reader on the volume, whatever the world size."""
    leads = world.place.leads
    tensors = tensor_file.decode(checkpoint.path(file)) if leads else {}
    shapes = world.control.broadcast({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
    received = {}
    for name, (shape, dtype) in shapes.items():
        received[name] = tensors[name].contiguous() if leads else torch.empty(shape, dtype=dtype)
        world.broadcast(received[name])
    return received


_SEPARATOR = "/"


def flatten_optimizer(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
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


def restore_optimizer(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
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
