"""One of the workers that grow trees together: ``worker.py INDEX WORKERS TRACKER_HOST TRACKER_PORT``. Says what it has."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import xgboost as xgb
from xgboost import collective

ROWS = 600


def main() -> None:
    index, workers, host, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    random = np.random.default_rng(0)
    features = random.normal(size=(ROWS, 6)).astype(np.float32)
    labels = (features[:, 0] * features[:, 1] > 0).astype(np.float32)
    with collective.CommunicatorContext(dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=str(index)):
        assert collective.get_world_size() == workers
        mine = xgb.DMatrix(features[index::workers], labels[index::workers])
        losses: dict[str, dict[str, list[float]]] = {}
        booster = xgb.train(
            {"objective": "binary:logistic", "max_depth": 4, "tree_method": "hist", "nthread": 1}, mine, num_boost_round=12,
            evals=[(mine, "train")], evals_result=losses, verbose_eval=False,
        )
        digest = hashlib.sha256(booster.save_raw("json")).hexdigest()
        said = {"rank": collective.get_rank(), "digest": digest, "rows": mine.num_row(), "losses": losses["train"]["logloss"]}
    Path(f"said-{index}.json").write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main()
