"""The whole weights of a checkpoint, one tensor at a time, whichever engine wrote it.

An engine whose checkpoints have files of their own adds a row to ``READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from safetensors import safe_open
from torch import Tensor

from trainwright_trainer.checkpoint import CommittedFiles
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.engine import deepspeed_files, sharded_state, whole_state
from trainwright_trainer.tensorflow.names import torch_axes, torch_name

KERAS_MARK = "/"
"""In every path of a weight of Keras, and in no name of a weight of torch."""

Weights = Iterator[tuple[str, Tensor]]
"""Parameters and persistent buffers by the module's own names, whole and on the host; a tied one under its first name."""


def _whole(files: CommittedFiles) -> Weights:
    """DDP, Horovod and TensorFlow: one file that holds all of it."""
    with safe_open(files.path(whole_state.MODEL_FILE), framework="pt") as opened:
        for name in opened.keys():  # noqa: SIM118  not a mapping
            tensor = opened.get_tensor(name)
            yield from [(name, tensor)] if KERAS_MARK not in name else _of_keras(name, tensor)


def _of_keras(path: str, tensor: Tensor) -> Weights:
    name = torch_name(path)
    yield name, tensor.permute(torch_axes(path, tensor.dim())).contiguous()
    layer, _, kind = name.rpartition(".")
    if kind == "running_var":  # Keras does not count batches, and torch looks at their number only where there is no momentum
        yield f"{layer}.num_batches_tracked", torch.tensor(0)


READERS: dict[str, Callable[[CommittedFiles], Weights]] = {
    whole_state.MODEL_FILE: _whole,
    sharded_state.WHOLE_FILE: sharded_state.full_weights,
    deepspeed_files.FOLDER: deepspeed_files.full_weights,
}
"""A file or folder that tells whose a checkpoint is -> what reads it."""


def full_weights(files: CommittedFiles) -> Weights:
    """The weights of a verified checkpoint. Raises :class:`InvalidRunError` where its engine wrote them in a form of its own."""
    names = files.names()
    held = {name.partition("/")[0] for name in names}
    for file, read in READERS.items():
        if file in held:
            return read(files)
    raise InvalidRunError(
        f"this trainer cannot export the checkpoint's weights (its files are {', '.join(names[:3])}, …); "
        "it exports those of the torch engines and of TensorFlow"
    )
