"""Runs in dist/ with torch's engines, and programs under our supervisor, train from their YAML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images, write_pairs, write_tokens, write_weights
from tests.engines.rehearsed import Rehearsal
from tests.trainer.data.tokenizer_files import word_piece

SCRIPT = Path(__file__).with_name("script.py")
"""What the images of those runs have at /app/train.py."""
pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]


def test_a_program_without_python_brings_its_supervisor(tmp_path: Path) -> None:
    run = Rehearsal("laptop/training/runs/shell-script", tmp_path)
    run.play()
    assert "rank 1 has done 200 steps" in run.logs
    assert "is not brought along: the pods start that of this environment" in run.output


def test_an_elastic_pytorch_job_trains(tmp_path: Path) -> None:
    run = Rehearsal("kubeflow-a100/training/runs/bert-finetune", tmp_path)
    model = run.at("/data/models/bert-large-uncased")
    word_piece(model, vocabulary=300)
    write_weights(model, run.work)
    write_pairs(run.at("/data/mnli"), ("premise", "hypothesis"), "label", classes=3)
    run.play()


@pytest.mark.nightly
@pytest.mark.parametrize("path", ["kubeflow-a100/training/runs/resnet50-imagenet", "h100-ib/training/runs/spot-resnet"])
def test_a_run_on_images_trains(path: str, tmp_path: Path) -> None:
    """A PyTorchJob, and an Indexed Job on spot nodes."""
    run = Rehearsal(path, tmp_path)
    write_images(run.at("/data/imagenet"), classes=1000, count=1)
    run.play()


@pytest.mark.parametrize("path", [
    "kubeflow-a100/training/runs/volcano-lm",
    pytest.param("laptop/training/runs/stdlib-lm", marks=pytest.mark.nightly),
    pytest.param("laptop/training/runs/digits-ddp", marks=pytest.mark.nightly),
])
def test_a_run_on_what_every_machine_has_trains(path: str, tmp_path: Path) -> None:
    """A Volcano Job, and Indexed Jobs on CPUs."""
    Rehearsal(path, tmp_path).play()


@pytest.mark.parametrize(("path", "data"), [
    ("roce-h200/training/runs/roce-tuning", "/data/pretrain"),
    pytest.param("h100-ib/training/runs/llama-1b-ddp", "/data/pretraining", marks=pytest.mark.nightly),
])
def test_a_run_on_token_files_trains(path: str, data: str, tmp_path: Path) -> None:
    """A JobSet with FSDP2, and an Indexed Job."""
    run = Rehearsal(path, tmp_path)
    write_tokens(run.at(data), vocabulary=32000, token_bytes=4, count=200_000)
    run.play()


@pytest.mark.parametrize("path", [
    "h100-ib/training/runs/own-script",
    "kubeflow-a100/training/runs/gang-scheduled-training",
    "trainer-h100/research/runs/sdk-train",
    pytest.param("kubeflow-a100/training-host/runs/hostnetwork-ddp", marks=pytest.mark.nightly),
    pytest.param("trainer-h100/research/runs/sdk-train-one-node", marks=pytest.mark.nightly),
    pytest.param("h100-ib/training/runs/torchrun-command", marks=pytest.mark.nightly),
    pytest.param("h100-ib/training/runs/deepspeed-training", marks=pytest.mark.nightly),
])
def test_a_program_of_its_author_s_runs(path: str, tmp_path: Path) -> None:
    run = Rehearsal(path, tmp_path)
    run.at("/app").mkdir()
    shutil.copy(SCRIPT, run.at("/app") / "train.py")
    run.play()
    ranks = 1 if path.endswith("one-node") else 2
    assert f"rank {ranks - 1} of {ranks} ends at loss" in run.logs
