"""The MPIJobs in dist/ and a Volcano Job run with Horovod from their YAML: a real mpirun over real sshd."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images
from tests.engines.manifest_run import Playing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
APP = Path(__file__).with_name("app.py")
"""What that run's image has at /app/train.py."""


def test_an_mpi_job_runs_its_program(tmp_path: Path) -> None:
    with Playing("kubeflow-a100/training/runs/nccl-training", tmp_path) as run:
        shutil.copy(APP, run.at("/app/train.py"))
        run.mpi_hosts()
        write_keys(run)
        run.train()
        assert "rank 1 of 2: epoch 9" in run.logs()


def test_an_mpi_job_trains(tmp_path: Path) -> None:
    """With our trainer, whose ranks mpirun starts."""
    with Playing("kubeflow-a100/training/runs/vit-horovod", tmp_path) as run:
        write_images(run.at("/data/imagenet"), classes=4)
        run.mpi_hosts()
        write_keys(run)
        run.train()


def test_a_volcano_job_runs_the_same_program_by_the_host_file_that_it_brings(tmp_path: Path) -> None:
    with Playing(Path(__file__).with_name("volcano.yaml"), tmp_path) as run:
        shutil.copy(APP, run.at("/app/train.py"))
        write_keys(run)
        run.train()
        assert "rank 1 of 2: epoch 9" in run.logs()


def write_keys(run: Playing) -> None:
    """The keys that operator or plugin makes, and the image's settings of ssh and sshd, as mpi-operator's build/base has them."""
    home = run.at("/home/mpiuser")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "key")], check=True)
    shutil.copy(home / "key.pub", home / "authorized_keys")
    (home / "ssh_config").write_text(
        f"IdentityFile {home}/key\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd separates its privileges there
    for pod in run.pods:
        (home / f"sshd_config-{pod.number}").write_text(
            f"ListenAddress {run.address(pod)}\nHostKey {home}/key\nAuthorizedKeysFile {home}/authorized_keys\n"
            "StrictModes no\nUsePAM no\n"
        )
