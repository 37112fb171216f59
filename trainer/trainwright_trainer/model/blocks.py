"""The repeated layers of a model: recomputed in the backward pass, compiled, and sharded one by one.

The order is: :func:`checkpoint_activations`, :func:`compile_blocks`, then the engine shards the blocks. Both replace ``forward``
on the block itself and wrap no module. So parameters keep their names, and what an engine hooks to a block's call
(``fully_shard`` gathers its weights there) stays outside what is compiled and of what is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from trainwright_trainer.contract.model import Layers

_RESIDUAL_BLOCKS = ("ResNetBasicLayer", "ResNetBottleNeckLayer")
"""Blocks that ``transformers`` does not mark as such."""
_GRAPHS_PER_BLOCK = 4
"""Training and evaluation, with and without gradients."""


def blocks(module: nn.Module) -> list[nn.Module]:
    """The repeated layers in forward order, none inside another.

    These are the layers that ``transformers`` marks as units of recomputation, and ResNet's residual blocks. Where a model has
    neither, they are the children of its outermost lists of layers of one class. May be empty.
    """
    marked = list(_outermost(module, _is_block))
    return marked or [layer for layers in _outermost(module, _is_list_of_layers) for layer in layers.children()]


def counted_layers(module: nn.Module) -> Layers:
    """The parameters of a model block by block, tied ones once, for the estimates of what it takes."""
    parts = blocks(module)
    inside = {id(parameter) for block in parts for parameter in block.parameters()}
    return Layers(
        blocks=tuple((tuple((parameter.numel(), 1) for parameter in block.parameters()), 1) for block in parts),
        ends=tuple((parameter.numel(), 1) for parameter in module.parameters() if id(parameter) not in inside),
        looked_up=_looked_up(module),
    )


def _looked_up(module: nn.Module) -> int:
    """Elements of the table of tokens, where it is in no matrix product."""
    if not isinstance(module, PreTrainedModel):
        return 0
    try:
        table, head = module.get_input_embeddings(), module.get_output_embeddings()  # type: ignore[no-untyped-call]
    except NotImplementedError:  # as of models that read no tokens
        return 0
    multiplied = getattr(head, "weight", None)
    return table.weight.numel() if isinstance(table, nn.Embedding) and table.weight is not multiplied else 0


def _outermost(module: nn.Module, wanted: Callable[[nn.Module], bool]) -> Iterator[nn.Module]:
    for child in module.children():
        if wanted(child):
            yield child
        else:
            yield from _outermost(child, wanted)


def _is_block(module: nn.Module) -> bool:
    # By base class: `fully_shard` makes a class of its own from the module's.
    names = {kind.__name__ for kind in type(module).__mro__}
    return isinstance(module, GradientCheckpointingLayer) or not names.isdisjoint(_RESIDUAL_BLOCKS)


def _is_list_of_layers(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList) and len(module) > 1 and len(list(groupby(map(type, module)))) == 1


def checkpoint_activations(module: nn.Module) -> None:
    """Keep only the input of each block for the backward pass, which computes the rest of the block again.

    Gradients are the same: dropout draws the same numbers again, and batch norm takes note of a batch once.
    """
    for block in blocks(module):
        _replace_forward(block, _recomputed(block.forward, _contexts(block)))


def compile_blocks(module: nn.Module) -> None:
    """Compile each block by itself. Equal blocks share their graphs, so it takes as long as one block does.

    torch generates code for the device when a block first runs, and needs a C++ compiler for it.
    """
    parts = blocks(module)
    # One count for all blocks, whose code is the same; dynamo gives up compiling, without an error, where it is exceeded.
    limit = max(torch._dynamo.config.recompile_limit, _GRAPHS_PER_BLOCK * len(parts))
    torch._dynamo.config.recompile_limit = limit
    for block in parts:
        _replace_forward(block, torch.compile(block.forward))


def _replace_forward(block: nn.Module, forward: Callable[..., Any]) -> None:
    block.forward = forward


_Contexts = Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]


def _recomputed(forward: Callable[..., Any], contexts: _Contexts | None) -> Callable[..., Any]:
    settings: dict[str, Any] = {} if contexts is None else {"context_fn": contexts}

    @wraps(forward)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **settings, **kwargs)

    return recomputed


def _contexts(block: nn.Module) -> _Contexts | None:
    """What the first and the second computation of a block run under."""
    norms = [part for part in block.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    return (lambda: (nullcontext(), _without_statistics(norms))) if norms else None


@contextmanager
def _without_statistics(norms: list[_BatchNorm]) -> Iterator[None]:
    """Normalise by the batch, and leave the running statistics as they are: the first computation updated them.

    Not by ``track_running_stats``, for then the second computation would save other tensors than the first.
    """
    kept = [(norm, norm.momentum, norm._buffers["num_batches_tracked"]) for norm in norms]
    for norm in norms:
        norm.momentum, norm._buffers["num_batches_tracked"] = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, count in kept:
            norm.momentum, norm._buffers["num_batches_tracked"] = momentum, count
