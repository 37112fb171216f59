"""Hugging Face's ``Trainer``, and those that derive from it, as TRL's do: a callback, and where to resume.

    from trainwright_trainer.adapters.transformers import TrainwrightCallback, newest

    trainer = Trainer(..., callbacks=[TrainwrightCallback()])
    trainer.train(resume_from_checkpoint=newest())

The trainer saves as its arguments say (``save_steps``); each of its checkpoints is committed as one of the run. When the run is
told to end, it saves once more, at the same step on all ranks, and the process ends there.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trainwright_trainer import run
from trainwright_trainer.adapters.ddp import watch


def newest() -> str | None:
    """For ``resume_from_checkpoint``: the newest checkpoint of the run that verifies; None in a run that begins."""
    found = run.checkpoints.newest()
    return None if found is None else str(found.path)


class TrainwrightCallback(TrainerCallback):
    """Pass one to the trainer of every rank."""

    def __init__(self) -> None:
        self._stopping = False

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        watch(kwargs["model"])
        if run.world.local_rank == 0:
            _unshare(Path(args.output_dir or ""), state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """All ranks come here after each optimizer step."""
        samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        run.step(state.global_step, samples=state.global_step * samples)
        self._stopping = run.should_stop()
        if self._stopping:
            control.should_save = control.should_training_stop = True

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """What the trainer knows of the step before."""
        known = logs or {}
        if state.global_step:
            run.step(
                state.global_step, loss=known.get("loss"), learning_rate=known.get("learning_rate"),
                gradient_norm=known.get("grad_norm"), evaluation_loss=known.get("eval_loss"),
            )

    def on_prediction_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        run.phase("evaluating")

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The trainer has written its folder, on each rank its part; the files that this node sees go into the draft."""
        folder = Path(args.output_dir or "", f"checkpoint-{state.global_step}")
        draft = run.checkpoints.draft(state.global_step)
        if run.world.local_rank == 0:
            for source in folder.rglob("*"):
                if source.is_file():
                    _into(source, draft / source.relative_to(folder))
        run.checkpoints.commit(state.global_step)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """What a script does after training is for a run that has come to its end."""
        if self._stopping:
            run.stopped()


def _unshare(output: Path, step: int) -> None:
    """Remove from the trainer's folders of later steps what commits have too: it comes to these steps again, and would write into
    the files of a commit. It saves only after a step of all ranks, so after this.
    """
    later = (folder for folder in output.glob("checkpoint-*") if folder.name.removeprefix("checkpoint-").isdecimal())
    for folder in (one for one in later if int(one.name.removeprefix("checkpoint-")) > step):
        for file in folder.rglob("*"):
            with suppress(FileNotFoundError):  # another node is as fast
                if file.is_file() and file.stat().st_nlink > 1:
                    file.unlink()


def _into(source: Path, target: Path) -> None:
    """By a hard link, so that it takes no space while the trainer keeps its own; another node may have been faster."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)
