"""XGBoost itself, as it is installed: a tracker and two workers make one model, and a metric scores an objective or does not."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import xgboost
from pydantic import ValidationError
from tests.engines.processes import Processes
from xgboost.tracker import RabitTracker

from trainwright_trainer.contract.boosting import BoostingSettings, MetricName, Objective

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


@pytest.mark.parametrize(("objective", "metric"), list(product(get_args(Objective), get_args(MetricName))))
def test_a_metric_that_a_run_may_ask_for_is_one_that_scores(objective: str, metric: str) -> None:
    """Those that it may not ask for end it at the first evaluation."""
    of_classes = {"num_class": 3} if objective.startswith("multi:") else {}
    train = xgboost.DMatrix(np.arange(12.0).reshape(6, 2), label=np.arange(6) % of_classes.get("num_class", 2))
    booster, table = {"objective": objective, **of_classes}, {"source": "table", "format": "libsvm", "path": "/data"}
    model = xgboost.Booster({**booster, "eval_metric": metric, "nthread": 1}, [train])
    model.update(train, 0)
    try:
        BoostingSettings.model_validate({"booster": booster, "data": table, "rounds": 1, "evaluation_metrics": [metric]})
    except ValidationError:
        with pytest.raises(xgboost.core.XGBoostError):
            model.eval(train)
    else:
        assert np.isfinite(float(model.eval(train).rpartition(":")[2]))
