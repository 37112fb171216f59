"""Ray Train itself, as it is installed: a trainer with two workers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.engines.processes import Processes
from tests.engines.ray.conftest import Cluster

LOOP = Path(__file__).with_name("loop.py")


@pytest.mark.nightly
def test_two_workers_train_one_model(cluster: Cluster, processes: Processes, tmp_path: Path) -> None:
    processes.run([sys.executable, LOOP, cluster.address, tmp_path])
    first, second = map(processes.said, range(2))
    assert [first["rank"], second["rank"]] == [0, 1]
    assert first["world_size"] == second["world_size"] == 2
    assert first["weights"] == second["weights"]
    assert first["losses"][-1] < first["losses"][0] / 10
    assert second["losses"][-1] < second["losses"][0] / 10
