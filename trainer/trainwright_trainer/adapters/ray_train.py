"""Ray Train: a loop that was written for its ``report``, ``get_checkpoint`` and ``get_context`` is a script, on Ray or without.

    from trainwright_trainer.adapters import ray_train as train
    ...
    last = train.should_stop()
    train.report({"loss": loss}, checkpoint=train.Checkpoint.from_directory(folder) if last or epoch % 10 == 0 else None)
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ray.train import Checkpoint

from trainwright_trainer import run

__all__ = ["Checkpoint", "Context", "get_checkpoint", "get_context", "report", "should_stop"]


class Context:
    """Who this rank is, by the names of Ray Train's own."""

    def get_world_rank(self) -> int:
        return run.world.rank

    def get_world_size(self) -> int:
        return run.world.size

    def get_local_rank(self) -> int:
        return run.world.local_rank

    def get_local_world_size(self) -> int:
        return run.world.local_size


class _Reports:
    done = 0
    """Until now, with those of the attempts before: the steps of the run."""
    last: bool | None = None
    """Whether the next one is; None where the loop has not asked."""


def get_context() -> Context:
    return Context()


def get_checkpoint() -> Checkpoint | None:
    """The newest that verifies, as a folder to read; None in a run that begins. Call it once, before the first report."""
    found = run.checkpoints.newest()
    if found is None:
        return None
    _Reports.done = found.step
    return Checkpoint.from_directory(found.path)


def should_stop() -> bool:
    """Whether the run is told to end, so that the next report is the last and needs a checkpoint. Ray Train has nothing like it.

    Call it on all ranks, at most once before a report: where nobody asked, the run may end at one without a checkpoint.
    """
    _Reports.last = run.should_stop()
    return _Reports.last


def report(metrics: Mapping[str, Any], checkpoint: Checkpoint | None = None) -> None:
    """A step is done, and what ``metrics`` has as ``loss`` was measured. Call it on all ranks equally often.

    Files of all ranks' checkpoints go into one, which is committed when this returns. A run that is told to end ends here.

    Args:
        checkpoint: It is enough that one rank has one, once ``torch.distributed`` is initialized; else all have one or none has.
    """
    _Reports.done += 1
    loss = metrics.get("loss")
    run.step(_Reports.done, loss=None if loss is None else float(loss))
    saves = _on_some_rank(checkpoint is not None)
    if saves:
        folder = run.checkpoints.draft()
        if checkpoint is not None:
            with checkpoint.as_directory() as files:
                shutil.copytree(files, folder, dirs_exist_ok=True)
        run.checkpoints.commit()
    last, _Reports.last = run.should_stop() if _Reports.last is None else _Reports.last, None
    if last:
        run.stopped(saved=saves)


def _on_some_rank(here: bool) -> bool:
    distributed = sys.modules.get("torch.distributed")  # a loop without torch has none to ask by
    if run.world.size == 1 or distributed is None or not distributed.is_initialized():
        return here
    answers: list[bool] = [False] * run.world.size
    distributed.all_gather_object(answers, here)
    return any(answers)
