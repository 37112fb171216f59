"""The MPIJobs in dist/ and a Volcano Job run with Horovod from their YAML: a real mpirun over real sshd."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images
from tests.engines.rehearsed import Rehearsal

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]
APP = Path(__file__).with_name("app.py")
"""What that run's image has at /app/train.py."""


@pytest.mark.nightly
@pytest.mark.parametrize("run", ["kubeflow-a100/training/runs/nccl-training", Path(__file__).with_name("volcano.yaml")])
def test_mpirun_starts_a_program(run: str | Path, tmp_path: Path) -> None:
    """By the host file that the operator makes, or that the run brings."""
    rehearsal = Rehearsal(run, tmp_path)
    rehearsal.at("/app").mkdir()
    shutil.copy(APP, rehearsal.at("/app") / "train.py")
    rehearsal.play()
    assert "rank 1 of 2: epoch 9" in rehearsal.logs


def test_an_mpi_job_trains(tmp_path: Path) -> None:
    """With our trainer, whose ranks mpirun starts."""
    rehearsal = Rehearsal("kubeflow-a100/training/runs/vit-horovod", tmp_path)
    write_images(rehearsal.at("/data/imagenet"), classes=1000, count=1)
    rehearsal.play()
