"""Horovod itself, as it was built: two ranks under mpirun, and under its own launcher over gloo."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.engines.processes import Processes

RANK = Path(__file__).with_name("rank.py")
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", "--mca", "btl_tcp_if_include", "lo"]
LAUNCHERS = {
    "mpirun": [*MPIRUN, *(["--allow-run-as-root"] if os.geteuid() == 0 else [])],
    "gloo": ["horovodrun", "--gloo", "-np", "2", "-H", "localhost:2", "--network-interfaces", "lo"],
}


@pytest.mark.parametrize("launcher", ["mpirun", pytest.param("gloo", marks=pytest.mark.nightly)])
def test_two_ranks_train_one_model(processes: Processes, launcher: str) -> None:
    processes.run([*LAUNCHERS[launcher], sys.executable, RANK])
    first, second = map(processes.said, range(2))
    for said in (first, second):
        assert said["size"] == 2
        assert said["mpi"]
        assert said["gloo"]
        assert said["summed"] == [3.0, 3.0, 3.0]
        assert said["gathered"] == [0.0, 1.0, 1.0]
        assert said["told"] == {"from": 1}
        assert said["losses"][-1] < said["losses"][0] / 10
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["weights"] == second["weights"]
