"""First values of a module's parameters: the same under every engine and world size, one submodule on the host at a time.

A model that is sharded never exists whole on one host. So it is built as a :func:`skeleton` without weights, sharded by the
engine, given memory by :func:`materialise`, and filled by :func:`initialise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from trainwright_trainer.model.first_values import fill
from trainwright_trainer.model.weights import InitialWeights, Origin

Module = TypeVar("Module", bound=nn.Module)
Store = Callable[[nn.Parameter, Tensor], None]
"""Writes a parameter's whole value, which lies on the host, to where the parameter lives. May have to change its dtype."""

_META = torch.device("meta")


def skeleton(build: Callable[[], Module]) -> Module:
    """What ``build`` builds, with parameters that have shapes and no memory, and with real buffers.

    Buffers are computed in ``__init__`` and in no checkpoint (rotary frequencies, position ids), so they have to be real.
    The host holds one parameter at a time meanwhile. What a constructor draws at random is lost, and moves no generator.
    """
    with torch.random.fork_rng(devices=[]), _parameters_on_meta():
        return build()


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Every parameter goes to the meta device as soon as a module owns it, which is before its layer initialises it."""
    register = nn.Module.register_parameter

    def register_on_meta(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        register(self, name, param)
        if param is not None and not param.is_meta:
            self._parameters[name] = nn.Parameter(param.detach().to(_META), requires_grad=param.requires_grad)

    nn.Module.register_parameter = register_on_meta  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def materialise(module: nn.Module, device: torch.device) -> None:
    """Give every parameter memory on ``device``, unwritten, and move the buffers there. Tied parameters stay tied.

    Works before and after ``fully_shard``; after it a rank allocates its shards only.
    """
    ties = _ties(module)
    # FSDP overrides `_apply` to take note of its parameters' new memory; `to_empty`, which calls it too, would lose the buffers.
    module._apply(lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device))  # type: ignore[no-untyped-call]
    for first, others in ties:
        for owner, name in others:
            owner._parameters[name] = first[0]._parameters[first[1]]


_Place = tuple[nn.Module, str]


def _ties(module: nn.Module) -> list[tuple[_Place, list[_Place]]]:
    places: dict[int, list[_Place]] = {}
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((owner, name))
    return [(first, others) for first, *others in places.values() if others]


def initialise(
    module: nn.Module, *, seed: int, weights: Path | None = None, store: Store | None = None
) -> Origin | None:
    """Give every parameter its first value, and every persistent buffer that ``weights`` holds.

    What is not in ``weights`` comes from the model's own ``_init_weights`` (``transformers``) or ``reset_parameters`` (torch), on
    the host, under a generator seeded from ``seed`` and the submodule's name. So the values depend on neither engine nor world
    size. The host holds one submodule's parameters at a time. A tied parameter is filled once, as the first of its names.

    Args:
        module: With parameters that ``store`` can write to: see :func:`materialise`.
        seed: The run's.
        weights: Directory of safetensors as ``save_pretrained`` writes it.
        store: Default: :func:`write`.

    Returns:
        What was and was not in ``weights``, for the log; nothing without them.

    Raises:
        InvalidRunError: The weights are another model's, or a parameter has no initialisation that runs by itself.
    """
    put = store or write
    if weights is None:
        fill(module, seed, frozenset(), put)
        return None
    held = InitialWeights(weights, module)
    fill(module, seed, held.names, put)
    for name, parameter in module.named_parameters():
        if name in held.names:
            put(parameter, held.read(name))
    for name, buffer in module.named_buffers():
        if name in held.names:
            buffer.copy_(held.read(name))
    return held.origin


@torch.no_grad()
def write(parameter: nn.Parameter, value: Tensor) -> None:
    """Copy a whole value into a plain parameter, or this rank's part of it into a sharded one. Talks to no other rank."""
    # A parameter of a module is a DTensor once `fully_shard` sharded it, which the type of nn.Parameter does not say.
    tensor = cast("Tensor", parameter)
    if isinstance(tensor, DTensor):
        _local(tensor).copy_(_part(tensor, value))
    else:
        tensor.copy_(value)


def _local(tensor: DTensor) -> Tensor:
    return cast("Tensor", cast("Any", tensor).to_local())


def _part(tensor: DTensor, value: Tensor) -> Tensor:
    """This rank's part of ``value``, a view: of a mapped file only the part's own pages are read."""
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError("this rank holds no part of the tensor")
    for dimension, placement in enumerate(tensor.placements):
        if isinstance(placement, Shard):
            # DTensor cuts as torch.chunk does, which may give fewer chunks than there are ranks.
            chunks = value.chunk(mesh.size(dimension), placement.dim)
            number = coordinate[dimension]
            value = chunks[number] if number < len(chunks) else value.narrow(placement.dim, 0, 0)
    return value
