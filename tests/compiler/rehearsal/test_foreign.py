"""Manifests of other projects play, with folders for what only their images have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.compiler.rehearsal.stage import play
from tests.programs import needs

from trainwright.rehearsal.stated.objects import objects_in

MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests"),
]

MEET = """
import os, torch, torch.distributed
torch.distributed.init_process_group("gloo")
everyone = torch.ones(1)
torch.distributed.all_reduce(everyone)
print(f"rank {torch.distributed.get_rank()} meets {int(everyone)}", flush=True)
torch.distributed.destroy_process_group()
os._exit(0)
"""
"""It ends itself at once: a thread of gloo that wakes while the interpreter takes itself down aborts the process, and then
``OnFailure`` starts a rank again that finds its peer gone."""


def test_a_pytorch_job_of_kueue(tmp_path: Path) -> None:
    (tmp_path / "mnist.py").write_text(MEET)
    found = objects_in(Path(MANIFESTS or "") / "pytorchjob-kueue.yaml")
    outcome, recorder = play(found, tmp_path / "w", mounts={"/opt/pytorch-mnist": tmp_path})
    assert outcome.reason == "PyTorchJobSucceeded"
    assert sorted(line for _, line in recorder.lines if "meets" in line) == ["rank 0 meets 2", "rank 1 meets 2"]


def test_a_train_job_of_kubeflow_with_its_runtime(tmp_path: Path) -> None:
    names = ("trainjob-multi-node", "runtime-torch-distributed")
    found = [one for name in names for one in objects_in(Path(MANIFESTS or "") / f"{name}.yaml")]
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.reason == "AllJobsCompleted"
    assert sorted(line for _, line in recorder.lines if line.startswith("RANK")) == [f"RANK: {rank}" for rank in range(3)]


@needs("mpirun", "ssh", "ssh-keygen", "sshd")
def test_an_mpi_job_of_mpi_operator(tmp_path: Path) -> None:
    program = tmp_path / "pi"
    program.write_text('#!/bin/sh\necho "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"\n')
    program.chmod(0o755)
    outcome, recorder = play(
        objects_in(Path(MANIFESTS or "") / "mpijob-pi.yaml"), tmp_path / "w", mounts={"/home/mpiuser": tmp_path}
    )
    assert outcome.reason == "CompletionsReached"
    assert sorted(line for _, line in recorder.lines if line.startswith("rank")) == ["rank 0 of 2", "rank 1 of 2"]
