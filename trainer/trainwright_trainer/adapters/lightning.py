"""Lightning: a callback for its ``Trainer``; Fabric's loops are the script's own, and have two functions.

    from trainwright_trainer.adapters.lightning import TrainwrightCallback, newest

    trainer = Trainer(..., callbacks=[TrainwrightCallback(every_n_steps=1000)])
    trainer.fit(model, loader, ckpt_path=newest())

Lightning goes on inside of an epoch, but gives its loader's first batches again, unless the loader has a ``state_dict`` (as
torchdata's ``StatefulDataLoader`` has).
"""

from __future__ import annotations

import sys
from typing import Any

from trainwright_trainer import run
from trainwright_trainer.adapters.ddp import watch

if "lightning" in sys.modules:
    from lightning.pytorch.callbacks import Callback
else:
    from pytorch_lightning.callbacks import Callback

FILE = "state.ckpt"


def newest() -> str | None:
    """For ``ckpt_path``: the newest checkpoint of the run that verifies; None in a run that begins."""
    found = run.checkpoints.newest()
    return None if found is None else str(found.path / FILE)


class TrainwrightCallback(Callback):  # type: ignore[misc]  # the tests' own environment has no Lightning
    """Pass one to the trainer of every rank.

    Args:
        every_n_steps: Optimizer steps between two checkpoints.
        every_n_epochs: Epochs between two checkpoints; one at the end of training is always made.
    """

    def __init__(self, every_n_steps: int | None = None, every_n_epochs: int | None = None) -> None:
        self._every_n_steps, self._every_n_epochs = every_n_steps, every_n_epochs
        self._step, self._saved = 0, 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._step = self._saved = trainer.global_step
        watch(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """All ranks come here after each batch; some batches end no optimizer step."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        run.step(self._step, loss=loss)
        stop = run.should_stop()
        if stop or (self._every_n_steps and self._step % self._every_n_steps == 0):
            self._save(trainer)
        if stop:
            run.stopped()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._every_n_epochs and (trainer.current_epoch + 1) % self._every_n_epochs == 0:
            self._save(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._save(trainer)

    def on_validation_batch_start(self, trainer: Any, *others: Any, **more: Any) -> None:
        run.phase("evaluating")

    def _save(self, trainer: Any) -> None:
        if self._saved != self._step:
            trainer.save_checkpoint(str(run.checkpoints.draft(self._step) / FILE))
            run.checkpoints.commit(self._step)
            self._saved = self._step


def save(fabric: Any, state: dict[str, Any], step: int | None = None) -> None:
    """Of Fabric: commit what its ``save`` writes, on all ranks. Default step: the last that :func:`run.step` was told."""
    fabric.save(str(run.checkpoints.draft(step) / FILE), state)
    run.checkpoints.commit()


def load(fabric: Any, state: dict[str, Any]) -> int:
    """Of Fabric: load the newest checkpoint that verifies into ``state``. Gives its step; 0 in a run that begins."""
    found = run.checkpoints.newest()
    if found is None:
        return 0
    fabric.load(str(found.path / FILE), state)
    return found.step
