"""``torch.distributed.checkpoint``: each rank writes its shards, and a run of another size reads them.

    step = load(state_dict)
    ...
    save(state_dict, step)
"""

from __future__ import annotations

from typing import Any

from torch.distributed.checkpoint.state_dict_loader import load as load_from
from torch.distributed.checkpoint.state_dict_saver import save as save_to

from trainwright_trainer import run


def save(state_dict: dict[str, Any], step: int | None = None, **options: Any) -> None:
    """Commit what ``torch.distributed.checkpoint.save`` writes, with its ``options``. Call it on all ranks.

    Args:
        step: Default: the last that :func:`run.step` was told.
    """
    save_to(state_dict, checkpoint_id=run.checkpoints.draft(step), **options)
    run.checkpoints.commit()


def load(state_dict: dict[str, Any], **options: Any) -> int:
    """Load the newest checkpoint that verifies into ``state_dict``, in place. Gives its step; 0 in a run that begins."""
    found = run.checkpoints.newest()
    if found is None:
        return 0
    load_from(state_dict, checkpoint_id=found.path, **options)
    return found.step
