"""DeepSpeed's checkpoints inside ours: its files are digested when they are written and verified before they are unpickled."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright_trainer.checkpoint import CommittedFiles, Draft, FileDigest
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.rank.place import Place

FOLDER = "deepspeed"
"""Folder inside the checkpoint, which DeepSpeed calls a tag."""
_UNIVERSAL = "universal"
_MODEL_STATES = "_model_states.pt"
_OF_ADAM = "exp_avg"
"""What the converter looks for in the state of every optimizer (deepspeed/checkpoint/ds_to_universal.py, 0.19.8)."""
_ADAM_ONLY = (
    "DeepSpeed's converter knows the state of Adam only; go on with as many ranks as before, or train with optimizer adamw in a "
    "checkpoint directory of its own"
)
_NOT_SHARED = "DeepSpeed converts a checkpoint on a file system that all ranks share, and this one is on an object store: go on"
_OF_RANK = re.compile(r"zero_pp_rank_(\d+)_")


class DeepSpeedSnapshot:
    """The state now, as DeepSpeed writes it: every rank its partition."""

    def __init__(self, engine: Any, place: Place) -> None:
        self._engine, self._place = engine, place

    def reserve(self) -> None:
        self.hold()

    def hold(self) -> None:
        raise NotImplementedError("DeepSpeed's state cannot be kept while training goes on")

    def write(self, draft: Draft) -> list[FileDigest]:
        folder = draft.path(f"{FOLDER}/any").parent
        self._engine.save_checkpoint(str(folder.parent), tag=folder.name, save_latest=False)
        # DeepSpeed ends with a barrier, so all files are there; each rank digests those that it wrote.
        names = sorted(path.name for path in folder.iterdir())
        return [draft.digest_existing(f"{FOLDER}/{name}") for name in names if _writer(name) == self._place.rank]


def load(engine: Any, files: CommittedFiles) -> None:
    """Take over a checkpoint that as many ranks wrote. Raises :class:`InvalidRunError` where it is another model's."""
    _load(engine, _folder(files).parent, FOLDER)


def load_universal(engine: Any, folder: Path) -> None:
    """Take over what :func:`converted` made. Raises :class:`InvalidRunError` where it is another model's."""
    _load(engine, folder, _UNIVERSAL)


def _load(engine: Any, folder: Path, tag: str) -> None:
    optimizer = engine.optimizer.optimizer
    settings = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    try:
        loaded, _ = engine.load_checkpoint(str(folder), tag=tag, load_lr_scheduler_states=False)
    except (RuntimeError, KeyError, AssertionError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InvalidRunError(
            f"DeepSpeed cannot load the checkpoint: {first}; an edited model needs a checkpoint directory of its own"
        ) from error
    if loaded is None:
        raise InvalidRunError(f"DeepSpeed finds nothing to load in {folder}")
    # Hyper-parameters stay those of this run. A universal checkpoint would also give every group those of the first one, weight
    # decay included, and let all tensors of the optimizer share one counter of steps, which each of them then counts up
    # (load_hp_checkpoint_state_from_checkpoint_dir_stage3 in deepspeed/runtime/zero/stage3.py, 0.19.8).
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)
    for state in optimizer.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].clone()


def buffers(files: CommittedFiles) -> dict[str, Tensor]:
    """What rank 0 held in persistent buffers, such as the statistics of batch norm, by name and on the host."""
    [own] = [name for name in files.names() if name.endswith(_MODEL_STATES) and _writer(name) == 0]
    state = torch.load(files.path(own), map_location="cpu", weights_only=False, mmap=True)  # verified before
    return {name: state["module"][name] for name in state["buffer_names"]}


def full_weights(files: CommittedFiles) -> Iterator[tuple[str, Tensor]]:
    """All weights of a checkpoint in fp32, put together from the ranks' partitions on the host; a tied one under its first name.

    Raises :class:`InvalidRunError` where DeepSpeed is not in this image.
    """
    try:
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    except ImportError as error:
        raise InvalidRunError(f"DeepSpeed wrote the checkpoint and must read it ({error}); use an image with it") from error
    folder = _folder(files)
    with redirect_stdout(sys.stderr):  # it says there what it finds
        weights = get_fp32_state_dict_from_zero_checkpoint(str(folder.parent), tag=folder.name)
    given = set()
    for name, tensor in weights.items():  # names that are tied to one before them come last, with the very same tensor
        if id(tensor) not in given:
            given.add(id(tensor))
            yield name, tensor


@contextmanager
def converted(files: CommittedFiles, world: TorchWorld) -> Iterator[Path]:
    """A checkpoint of another number of ranks, converted by rank 0 beside it for as long as it is loaded.

    Raises :class:`InvalidRunError` where DeepSpeed's converter fails, or what it writes would be rank 0's alone.
    """
    if not files.are_shared:
        ranks = f"with the {files.world_size} ranks that wrote it, not with {world.place.world_size}"
        raise InvalidRunError(f"{_NOT_SHARED} {ranks}; or keep its checkpoints on a claim (checkpoints.mount)")
    source = _folder(files)
    target = source.parent.with_name(f"{source.parent.name}.{_UNIVERSAL}")
    problem = _convert(source, target / _UNIVERSAL) if world.place.leads else None
    problem = world.control.broadcast(problem)
    if problem is not None:
        ranks = f"{files.world_size} ranks cannot be converted for {world.place.world_size}"
        raise InvalidRunError(f"the checkpoint of {ranks}: {problem}")
    try:
        yield target
    finally:
        world.control.gather(None)  # nobody reads any more
        if world.place.leads:
            shutil.rmtree(target, ignore_errors=True)


def _convert(source: Path, target: Path) -> str | None:
    shutil.rmtree(target.parent, ignore_errors=True)
    command = [
        sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state",
        "--input_folder", str(source), "--output_folder", str(target),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return None
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    said = lines[-1] if lines else f"exit code {ended.returncode}"
    return _ADAM_ONLY if _OF_ADAM in said else said


def _folder(files: CommittedFiles) -> Path:
    """Where all of DeepSpeed's files are."""
    paths = [files.path(name) for name in files.names() if name.startswith(f"{FOLDER}/")]  # an object store copies each here
    return paths[0].parent


def _writer(name: str) -> int:
    """The rank that wrote a file; what is nobody's partition is rank 0's."""
    match = _OF_RANK.search(name)
    return int(match[1]) if match else 0
