"""Weights & Biases, by its own package."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright_trainer.contract.metrics import WandB

if TYPE_CHECKING:
    import wandb

INIT_SECONDS = 30.0
CLOSE_SECONDS = 10.0
"""For the last upload: a run that ends has a grace period, and other things to do in it."""
STEP = "trainwright_step"


class WandBSink:
    """Attempts of an identity are one run there, under the identity's name.

    The horizontal axis is the metric ``trainwright_step``. Their own count of steps must never fall, and would drop what is
    trained again after a restart.

    Args:
        settings: The run's.
        run: Its name.
        identity: Name of its objects.
        directory: Of the state; the package makes ``wandb`` in it.
    """

    def __init__(self, settings: WandB, run: str, identity: str, directory: Path) -> None:
        self._settings, self._group, self._identity, self._directory = settings, run, identity, directory
        self._run: wandb.Run | None = None

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        import wandb

        self._directory.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self._settings.project, entity=self._settings.entity, mode=self._settings.mode, id=self._identity,
            name=self._identity, group=self._group, resume="allow", config=dict(config), dir=str(self._directory),
            settings=wandb.Settings(init_timeout=INIT_SECONDS, console="off", silent=True),
        )
        self._run.define_metric("*", step_metric=STEP)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self._run is not None:
            self._run.log({**values, STEP: step})

    def close(self) -> None:
        if self._run is not None:
            closing = threading.Thread(target=self._run.finish, daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)
