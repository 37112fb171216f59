"""What two runs are compared by: their last weights and losses, in the run's directory."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import torch

from trainwright_trainer import run

STEPS = 24


def a_moment() -> None:
    """A step takes a moment, so that a test finds the run in the middle."""
    time.sleep(float(os.environ.get("PAUSE", "0")))


def tell(model: torch.nn.Module) -> None:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    if run.world.rank == 0:
        Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"], "result").write_text(digest.hexdigest())

