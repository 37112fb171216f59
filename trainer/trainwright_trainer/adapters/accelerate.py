"""accelerate: its ``save_state`` and ``load_state``, as checkpoints of the run.

    step = load(accelerator)
    ...
    run.step(step, loss=loss)
    if run.should_stop():
        save(accelerator)
        run.stopped()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright_trainer import run

if TYPE_CHECKING:
    from accelerate import Accelerator


def save(accelerator: Accelerator, step: int | None = None) -> None:
    """Commit model, optimizer, scheduler, random states and what is registered. Call it on all ranks, as ``save_state``.

    Args:
        step: Default: the last that :func:`run.step` was told.
    """
    accelerator.save_state(str(run.checkpoints.draft(step)))
    run.checkpoints.commit()


def load(accelerator: Accelerator) -> int:
    """Load the newest checkpoint that verifies, after ``prepare``. Gives its step; 0 in a run that begins."""
    found = run.checkpoints.newest()
    if found is None:
        return 0
    accelerator.load_state(str(found.path))
    return found.step
