"""Adapters for libraries of others, as far as they need none of their loops."""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn
from transformers import TrainerControl, TrainerState, TrainingArguments

from trainwright_trainer.adapters.transformers import TrainwrightCallback


def test_a_trainer_that_goes_back_writes_into_no_file_of_a_commit(tmp_path: Path) -> None:
    """It opens its own files of a later step again, which are linked into the commit of that step."""
    output, commit = tmp_path / "output", tmp_path / "step-200"
    commit.mkdir()
    for step in (100, 200):
        (output / f"checkpoint-{step}").mkdir(parents=True)
        (output / f"checkpoint-{step}" / "optimizer.pt").write_text(f"{step}")
        (output / f"checkpoint-{step}" / "own.txt").write_text("in no commit")
        os.link(output / f"checkpoint-{step}" / "optimizer.pt", commit / f"{step}.pt")
    arguments = TrainingArguments(output_dir=str(output), report_to=[], use_cpu=True)
    TrainwrightCallback().on_train_begin(arguments, TrainerState(global_step=100), TrainerControl(), model=nn.Linear(1, 1))
    (output / "checkpoint-200" / "optimizer.pt").write_text("again")
    assert (commit / "200.pt").read_text() == "200"
    assert (output / "checkpoint-200" / "own.txt").exists()
    assert os.path.samefile(output / "checkpoint-100" / "optimizer.pt", commit / "100.pt")
