"""The state of engines that shard tensors by rows: each rank writes its own rows, and any number of ranks reads them again.

A safetensors file for each shard holds its rows of every weight and of every optimizer tensor, in equal chunks as ``torch.chunk``
makes them, which is how ``fully_shard`` lays them out. Where a row lies follows from the number of these files, so that nothing
but the tensors is stored. Where several ranks hold the same shard, one of them writes it. torch's own distributed checkpoints are
not used: their metadata is pickled, and their files cannot be hashed while they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trainwright_trainer.checkpoint import CommittedFiles, tensor_file
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.engine import whole_state
from trainwright_trainer.engine.base import Tensors
from trainwright_trainer.engine.update import Update
from trainwright_trainer.engine.whole_state import persistent_buffers, refuse_other_model
from trainwright_trainer.rank.place import Place

WHOLE_FILE = "whole.safetensors"
"""Rank 0's: what no rank holds a part of, such as counters, the statistics of batch norm and the shapes of all weights."""
WEIGHTS, OPTIMIZER = "weights", "optimizer"
_BUFFER, _COUNTER, _SHAPE, _UPDATE = "buffer/", "optimizer/", "shape/", "update/"


def shard_file(kind: str, shard: int) -> str:
    """Name of a shard's file of ``weights`` or of the ``optimizer``."""
    return f"{kind}-{shard:05d}.safetensors"


def files(
    module: nn.Module, optimizer: torch.optim.Optimizer, update: Update, place: Place, shard: int | None
) -> dict[str, Tensors]:
    """This rank's files of a checkpoint with their tensors, which are the live ones.

    Args:
        module: What is trained.
        optimizer: Its optimizer.
        update: What else its steps depend on.
        place: This rank.
        shard: The number of the shard that it writes; None where another rank, which holds the same one, does.
    """
    weights = {name: _local(parameter.data) for name, parameter in module.named_parameters()}
    state = whole_state.flatten_optimizer(module, optimizer)
    sharded = {name: tensor.to_local() for name, tensor in state.items() if isinstance(tensor, DTensor)}
    written: dict[str, Tensors] = {}
    if shard is not None:
        written |= {shard_file(WEIGHTS, shard): weights, shard_file(OPTIMIZER, shard): sharded}
    if place.leads:
        written[WHOLE_FILE] = {
            **{_SHAPE + name: torch.tensor(parameter.shape) for name, parameter in module.named_parameters()},
            **{_BUFFER + name: buffer for name, buffer in persistent_buffers(module)},
            **{_COUNTER + name: tensor for name, tensor in state.items() if name not in sharded},
            **{_UPDATE + name: tensor for name, tensor in update.state().items()},
        }
    return written


def load(checkpoint: CommittedFiles, module: nn.Module, optimizer: torch.optim.Optimizer, update: Update) -> None:
    """Take over a checkpoint of any number of ranks. Raises :class:`InvalidRunError` where it is another model's."""
    reader, parameters = ShardReader(checkpoint), dict(module.named_parameters())
    refuse_other_model({name: tuple(parameter.shape) for name, parameter in parameters.items()}, reader.shapes)
    with torch.no_grad():
        for name, parameter in parameters.items():
            _local(parameter.data).copy_(reader.like(parameter.data, WEIGHTS, name, name))
    for name, buffer in persistent_buffers(module):
        buffer.copy_(reader.whole[_BUFFER + name])
    state = reader.below(_COUNTER)
    for key in reader.keys(OPTIMIZER):
        name = whole_state.parameter_name(key)
        if name not in parameters:
            raise InvalidRunError(f"the checkpoint's optimizer state {key} fits no parameter of this run")
        state[key] = _shard_of(reader.like(parameters[name].data, OPTIMIZER, key, name), parameters[name].data)
    whole_state.restore_optimizer(module, optimizer, state)
    update.load(reader.below(_UPDATE))


def full_weights(checkpoint: CommittedFiles) -> Iterator[tuple[str, Tensor]]:
    """All weights and persistent buffers of a checkpoint, one whole tensor at a time."""
    reader = ShardReader(checkpoint)
    for name, shape in reader.shapes.items():
        yield name, reader.rows(WEIGHTS, name, name, 0, shape[0])
    yield from reader.below(_BUFFER).items()


def first_row(tensor: DTensor) -> int:
    """Of this rank's shard in the whole tensor."""
    rows, mesh = tensor.shape[0], tensor.device_mesh
    sharding = mesh.ndim - 1  # groups of ranks that hold the same come first, where there are any
    return min(mesh.get_local_rank(sharding) * _chunk(rows, mesh.size(sharding)), rows)


class ShardReader:
    """Rows of tensors, from the files of those shards that hold them."""

    def __init__(self, checkpoint: CommittedFiles) -> None:
        self._checkpoint = checkpoint
        self._opened: dict[str, Any] = {}
        self._shards = sum(name.startswith(f"{WEIGHTS}-") for name in checkpoint.names())
        self.whole = tensor_file.decode(checkpoint.path(WHOLE_FILE))
        self.shapes = {name: tuple(map(int, shape)) for name, shape in self.below(_SHAPE).items()}
        """Weight -> shape of the whole."""

    def below(self, prefix: str) -> dict[str, Tensor]:
        """Tensors that were stored whole, by the rest of their names."""
        return {name.removeprefix(prefix): tensor for name, tensor in self.whole.items() if name.startswith(prefix)}

    def keys(self, kind: str) -> list[str]:
        """Names of the tensors of a kind."""
        return list(self._open(kind, 0).keys())

    def like(self, tensor: Tensor, kind: str, key: str, name: str) -> Tensor:
        """The rows that ``tensor`` holds on this rank, of the tensor ``key`` that belongs to the weight ``name``."""
        start = first_row(tensor) if isinstance(tensor, DTensor) else 0
        return self.rows(kind, key, name, start, start + _local(tensor).shape[0])

    def rows(self, kind: str, key: str, name: str, start: int, stop: int) -> Tensor:
        """Rows ``start`` to ``stop`` of the whole tensor, on the host."""
        chunk, row, parts = _chunk(self.shapes[name][0], self._shards), start, []
        while row < stop:
            shard, offset = divmod(row, chunk)
            end = min(stop, (shard + 1) * chunk)
            # Copied: the slice is of the mapped file, which an optimizer on a CPU would go on using after it was removed.
            parts.append(self._open(kind, shard).get_slice(key)[offset:end - shard * chunk].clone())
            row = end
        if not parts:  # a shard beyond the last row
            parts = [self._open(kind, 0).get_slice(key)[:0].clone()]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _open(self, kind: str, shard: int) -> Any:
        """A shard's file, opened once and not for each of its tensors; it is closed with this reader."""
        name = shard_file(kind, shard)
        if name not in self._opened:
            self._opened[name] = safe_open(self._checkpoint.path(name), framework="pt")
        return self._opened[name]


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _shard_of(rows: Tensor, like: Tensor) -> Tensor:
    """The rows as this rank's shard of a tensor that is spread like another."""
    if not isinstance(like, DTensor):
        return rows
    mesh = like.device_mesh
    return DTensor.from_local(
        rows.to(_local(like).device), mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def _chunk(rows: int, shards: int) -> int:
    return max(1, -(-rows // shards))
