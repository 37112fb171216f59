"""One export: choose a checkpoint, verify it, write its weights as a directory in the form of ``transformers``.

The weights are read whole, one tensor at a time, whichever engine wrote them: one whose checkpoints have files of their own adds
a row to ``READERS``. Those of Keras are renamed and transposed without TensorFlow.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, CommittedFiles, tensor_file
from trainwright_trainer.checkpoint.record import Trained
from trainwright_trainer.checkpoint.storage import make_directory, replace_file, storage_errors, sync_directory
from trainwright_trainer.commands.export.origin import initial_weights_of, save_configuration
from trainwright_trainer.contract.failures import InvalidRunError, NoCheckpointError
from trainwright_trainer.contract.spec_file import read_specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.engine import deepspeed_files, sharded_state, whole_state
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.initialise import skeleton
from trainwright_trainer.model.weights import INDEX_FILE, SINGLE_FILE
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


SHARD_BYTES = 5 * 10**9
"""Of tensors in one file, which is also what the host holds at once; more only for a tensor that is larger by itself."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to export."""

    checkpoints: str
    """A lineage's directory, or its address on an object store."""
    output: Path
    specification: Path
    """The run's; read where the checkpoint does not say by itself what it was trained as."""
    step: int | None = None
    """Default: the newest that verifies."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    step: int
    architecture: str
    """Name of the class in ``transformers``."""
    size: int
    """Bytes of the weights."""
    files: int
    """Of safetensors."""


def export(request: Request) -> Exported:
    """Write the weights of a committed, verified checkpoint. The directory appears when it is whole.

    Nothing in the checkpoints is changed: a damaged one is passed over, and left for the run to set aside.

    Raises:
        NoCheckpointError: There is none, or none that verifies.
        InvalidRunError: The weights are not the specification's model, or something is at the output already.
        PodError: The specification is needed and cannot be read.
        StorageError: A volume failed.
    """
    store = CheckpointStore(request.checkpoints if "://" in request.checkpoints else os.path.abspath(request.checkpoints))
    record = _choose(store, request)
    trained = Trained.from_metadata(record.metadata) or _from_specification(request.specification)
    module: Any = skeleton(lambda: build_model(trained.model, trained.task, trained.data))
    with appearing(request.output) as draft:
        writer = ShardWriter(draft)
        expected = {name: tuple(tensor.shape) for name, tensor in _named(module).items()}
        for name, tensor in full_weights(CommittedFiles(store, record)):
            if expected.pop(name, None) != tuple(tensor.shape):
                raise _another_model(record, name)
            writer.add(name, tensor)
        if expected:
            raise _another_model(record, next(iter(expected)))
        files = writer.close()
        save_configuration(module, draft, initial_weights_of(record, request.specification))
    return Exported(record.step, type(module).__name__, writer.size, files)


def _choose(store: CheckpointStore, request: Request) -> CommitRecord:
    where = store.location()
    records = [record for record in store.records() if request.step in (None, record.step)]
    if not records:
        wanted = "no committed checkpoint" if request.step is None else f"no committed checkpoint of step {request.step}"
        raise NoCheckpointError(f"{where} holds {wanted}")
    damage = []
    for record in records:
        problems = store.verify(record)
        if not problems:
            return record
        damage.append(f"{record.name}: {problems[0].message}")
    raise NoCheckpointError(f"{where} holds no checkpoint that verifies: {damage[0]}")


def _from_specification(path: Path) -> Trained:
    work = read_specification(path).spec.work
    if not isinstance(work, Training):
        raise InvalidRunError(f"{path}: work.kind is {work.kind}, and only a run of kind trainer has weights to export")
    return Trained.of(work)


def _named(module: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds of a module: parameters by their first names, and persistent buffers."""
    tied = dict(module.named_parameters(remove_duplicate=False)).keys() - dict(module.named_parameters()).keys()
    return {name: tensor for name, tensor in module.state_dict().items() if name not in tied}


def _another_model(record: CommitRecord, name: str) -> InvalidRunError:
    return InvalidRunError(
        f"step {record.step} is not of the specification's model: {name} differs; name the specification that it was trained with"
    )


@contextmanager
def appearing(output: Path) -> Iterator[Path]:
    """A directory to write into, which becomes ``output`` at the end, whole or not at all.

    Raises:
        InvalidRunError: Something is there already.
        StorageError: The volume failed.
    """
    output = output.absolute()
    with storage_errors("read", output):
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise InvalidRunError(f"{output} is there already and is not empty: name another directory, or move it away")
    make_directory(output.parent)
    draft = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    try:
        with storage_errors("write", draft):
            draft.mkdir()
            yield draft
        sync_directory(draft)
        with storage_errors("write", output):
            os.rename(draft, output)
        sync_directory(output.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class ShardWriter:
    """Writes tensors in the order in which they come, ``SHARD_BYTES`` to a file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, Tensor] = {}
        self._held_bytes = 0
        self._parts: list[tuple[Path, list[str]]] = []
        self.size = 0
        """Bytes of all tensors so far."""

    def add(self, name: str, tensor: Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        if self._held and self._held_bytes + size > SHARD_BYTES:
            self._write()
        self._held[name] = tensor
        self._held_bytes += size
        self.size += size

    def close(self) -> int:
        """Write the rest, give the files their names, and write the index if there are several. Gives the number of files."""
        self._write()
        if len(self._parts) == 1:
            self._parts[0][0].rename(self._directory / SINGLE_FILE)
            return 1
        weight_map = {}
        for number, (path, names) in enumerate(self._parts, start=1):
            final = f"model-{number:05d}-of-{len(self._parts):05d}.safetensors"
            path.rename(self._directory / final)
            weight_map.update(dict.fromkeys(names, final))
        index = {"metadata": {"total_size": self.size}, "weight_map": dict(sorted(weight_map.items()))}
        replace_file(self._directory / INDEX_FILE, (json.dumps(index, indent=2) + "\n").encode())
        return len(self._parts)

    def _write(self) -> None:
        path = self._directory / f"part-{len(self._parts)}"
        with path.open("wb") as file:
            for piece in tensor_file.encode(self._held):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        self._parts.append((path, list(self._held)))
        self._held, self._held_bytes = {}, 0
