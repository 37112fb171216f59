"""XGBoost itself, as it is installed: a tracker and two workers make one model."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.engines.processes import Processes
from xgboost.tracker import RabitTracker

WORKER = Path(__file__).with_name("worker.py")


def test_two_workers_grow_one_model(processes: Processes) -> None:
    tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    place = tracker.worker_args()
    for index in range(2):
        processes.start([sys.executable, WORKER, str(index), "2", place["dmlc_tracker_uri"], str(place["dmlc_tracker_port"])])
    processes.wait()
    first, second = map(processes.said, range(2))
    tracker.wait_for(timeout=10)
    assert {first["rank"], second["rank"]} == {0, 1}
    assert first["rows"] == second["rows"] == 300
    assert first["digest"] == second["digest"]
    assert first["losses"] == second["losses"]
    assert first["losses"][-1] < first["losses"][0] / 2
