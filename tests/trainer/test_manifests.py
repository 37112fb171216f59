"""Runs in dist/ with torch's engines, and programs under our supervisor, train from their YAML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images, write_pairs, write_tokens, write_weights
from tests.engines.manifest_run import Playing
from tests.trainer.data.tokenizer_files import word_piece

from trainwright_trainer.contract import Training

SCRIPT = Path(__file__).with_name("script.py")
"""What the images of those runs have at /app/train.py."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_an_elastic_pytorch_job_trains(tmp_path: Path) -> None:
    with Playing("kubeflow-a100/training/runs/bert-finetune", tmp_path) as run:
        assert isinstance(run.spec.work, Training)
        model = run.at("/data/models/bert-large-uncased")
        word_piece(model, vocabulary=300)
        write_weights(model, run.spec.work)
        write_pairs(run.at("/data/mnli"), ("premise", "hypothesis"), "label", classes=3)
        run.train()


def test_a_pytorch_job_waits_for_its_data_and_trains(tmp_path: Path) -> None:
    with Playing("kubeflow-a100/training/runs/resnet50-imagenet", tmp_path) as run:
        write_images(run.at("/data/imagenet"), classes=4)
        for pod in run.pods:
            [waiting] = pod.before
            [marker] = waiting["args"]
            run.at(marker).touch()  # as the Job that fetches the data does last
        run.train()


def test_an_indexed_job_on_spot_nodes_trains(tmp_path: Path) -> None:
    with Playing("h100-ib/training/runs/spot-resnet", tmp_path) as run:
        write_images(run.at("/data/imagenet"), classes=4)
        run.train()


def test_a_volcano_job_trains(tmp_path: Path) -> None:
    with Playing("kubeflow-a100/training/runs/volcano-lm", tmp_path) as run:
        run.train()


def test_an_indexed_job_trains_on_text_of_its_own_machine(tmp_path: Path) -> None:
    with Playing("laptop/training/runs/stdlib-lm", tmp_path) as run:
        run.train()


def test_a_job_set_with_fsdp2_trains(tmp_path: Path) -> None:
    with Playing("roce-h200/training/runs/roce-tuning", tmp_path) as run:
        write_tokens(run.at("/data/pretrain"), vocabulary=400)
        run.train()


@pytest.mark.parametrize("path", [
    "h100-ib/training/runs/own-script",
    "kubeflow-a100/training-host/runs/hostnetwork-ddp",
    "trainer-h100/research/runs/sdk-train",
    "trainer-h100/research/runs/sdk-train-one-node",
])
def test_a_program_runs_under_our_supervisor(path: str, tmp_path: Path) -> None:
    with Playing(path, tmp_path) as run:
        shutil.copy(SCRIPT, run.at("/app/train.py"))
        run.train()
        assert "rank 1 of 2 ends at loss" in run.logs()
