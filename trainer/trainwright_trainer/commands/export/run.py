"""One export: choose a checkpoint, verify it, write its weights in the form of ``transformers``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.checkpoint.checkpoint_files import CommittedFiles
from trainwright_trainer.commands.export.directory import ShardWriter, appearing
from trainwright_trainer.commands.export.full_weights import full_weights
from trainwright_trainer.contract.failures import InvalidRunError, NoCheckpointError
from trainwright_trainer.contract.training import Training
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.initialise import skeleton
from trainwright_trainer.supervisor import read_specification
from trainwright_trainer.trained import Trained


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
        Refusal: The specification is needed and cannot be read.
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
        module.config.architectures = [type(module).__name__]
        module.config.save_pretrained(draft)
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
        raise InvalidRunError(f"{path}: work.kind is {work.kind}, and only what kind trainer learnt has weights to export")
    return Trained.of(work)


def _named(module: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds of a module: parameters by their first names, and persistent buffers."""
    tied = dict(module.named_parameters(remove_duplicate=False)).keys() - dict(module.named_parameters()).keys()
    return {name: tensor for name, tensor in module.state_dict().items() if name not in tied}


def _another_model(record: CommitRecord, name: str) -> InvalidRunError:
    return InvalidRunError(
        f"step {record.step} is not of the specification's model: {name} differs; name the specification that it was trained with"
    )
