"""Scripts in an image without our package: what their pods bring along is played, under mpirun, in a TFJob and elastic too."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bare_image import make_image
from tests.compiler.rehearsal.stage import ROOT, play
from tests.programs import needs

from trainwright import load_cluster
from trainwright.compile import compile_run
from trainwright.reading import validate_data
from trainwright.run import Run

pytestmark = pytest.mark.slow
RUN: dict[str, Any] = {
    "run": "probe", "team": "vision", "namespace": "training", "cluster": "laptop", "supervisor": "brought",
    "image": "registry.example.com/mirror/torch@sha256:" + "b" * 64, "security": {"user": 1000},
    "checkpoints": {"by": "script", "lineage": "probe"}, "mounts": {"/checkpoints": {"claim": "training-checkpoints"}},
    "workload": {"kind": "script", "command": ["python", "/app/probe.py"]},
}
OPERATORS = {"mpi-operator": {"version": "0.8.0"}, "training-operator": {"version": "1.9.4"}}
SAVES = """
import sys
from trainwright_trainer import run
run.step(1, loss=0.5)
(run.checkpoints.draft() / f"rank-{run.world.rank}").write_text("saved")
run.checkpoints.commit(1)
sys.stdout.write(f"rank {run.world.rank} of {run.world.size} by {run.__file__}\\n")
"""
TELLS = """
import os, sys
sys.stdout.write(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n")
"""
MEETS = """
import json, os, pathlib, sys, time
from trainwright_trainer import run
task = json.loads(os.environ["TF_CONFIG"])["task"]
sys.stdout.write(f"rank {run.world.rank} of {run.world.size} is {task['type']} {task['index']}\\n")
sys.stdout.flush()
pathlib.Path("/checkpoints", f"met-{run.world.rank}").touch()
while len(list(pathlib.Path("/checkpoints").glob("met-*"))) < run.world.size:  # a TFJob is done with its first worker
    time.sleep(0.02)
"""
SAID = re.compile(r"rank \d of \d.*")
"""A line in one write, since ranks share mpirun's terminal; what mpirun says itself may stand before it."""


def printed(tmp_path: Path, program: str, **run: Any) -> list[str]:
    """What its ranks print, in the run that completes."""
    profile = yaml.safe_load((ROOT / "charts/clusters/laptop.yaml").read_text()) | {"operators": OPERATORS}
    (tmp_path / "laptop.yaml").write_text(yaml.safe_dump(profile))
    asked = {**RUN, **run, "files": {"/app/probe.py": program}}
    compiled = compile_run(validate_data(Run, asked, None, {}), load_cluster(tmp_path / "laptop.yaml"))
    outcome, recorder = play(list(compiled.manifests), tmp_path / "w", programs=make_image(tmp_path / "image") / "bin")
    assert outcome.status == "Complete", f"{outcome.message}\n{recorder.lines}"
    said = sorted(found[0] for _, line in recorder.lines if (found := SAID.search(line)))
    assert said, recorder.lines
    return said


@needs("mpirun", "ssh", "ssh-keygen", "sshd")
def test_ranks_that_mpirun_starts_on_workers_have_their_hand(tmp_path: Path) -> None:
    mpi = {"kind": "ddp", "nodes": 2, "gpus_per_node": 0, "mpi": "openmpi"}
    said = printed(tmp_path, SAVES, target="mpi-job", topology=mpi)
    assert [line.partition(" by ")[0] for line in said] == ["rank 0 of 2", "rank 1 of 2"]
    assert all("/lib/hand/trainwright_trainer/run/" in line for line in said)
    assert list((tmp_path / "w/claims").rglob("commits/step-1.*.json"))


def test_the_tasks_of_a_tf_job_have_their_hand(tmp_path: Path) -> None:
    tasks, work = {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 0}, {**RUN["workload"], "config": {"depth": 2}}
    own = {"by": "own", "lineage": "probe"}
    said = printed(tmp_path, MEETS, target="tf-job", topology=tasks, workload=work, checkpoints=own)
    assert said == ["rank 0 of 2 is worker 0", "rank 1 of 2 is worker 1"]


@pytest.mark.skipif(find_spec("torch") is None, reason="torch has the rendezvous")
def test_an_elastic_script_meets_by_the_torch_of_its_image(tmp_path: Path) -> None:
    elastic = {"kind": "ddp", "nodes": 2, "gpus_per_node": 0, "elastic": {"min_nodes": 2, "max_nodes": 2}}
    said = printed(tmp_path, TELLS, target="pytorch-job", topology=elastic, checkpoints={"by": "own", "lineage": "probe"})
    assert said == ["rank 0 of 2", "rank 1 of 2"]
