"""Small tables in the three formats, and runs on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.ranks import Ranks

from trainwright_trainer.commands.local import free_port

Spec = Callable[..., dict[str, Any]]
COLUMNS = ("age", "amount", "claims", "distance", "weight", "year")


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    running = Ranks("trainwright_trainer.boosting", tmp_path)
    yield running
    running.close()


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train`` and ``held-out``: directories of csv files with a column ``fraud`` and some missing cells."""
    folder = tmp_path_factory.mktemp("table")
    for part, (name, files) in enumerate((("train", 3), ("held-out", 2))):
        (folder / name).mkdir()
        for number in range(files):
            write_csv(folder / name / f"part-{number}.csv", *rows(300, seed=10 * part + number))
    return folder


def rows(count: int, seed: int) -> tuple[Any, Any]:
    """Features float32 with NaN where a cell is missing, and labels 0 and 1 that follow from them with some noise."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, len(COLUMNS))).round(3).astype(np.float32)
    labels = (features[:, 0] + features[:, 1] * features[:, 2] + 0.3 * random.normal(size=count) > 0).astype(np.int64)
    features[random.random(features.shape) < 0.02] = np.nan
    return features, labels


def write_csv(path: Path, features: Any, labels: Any) -> None:
    lines = [",".join(["fraud", *COLUMNS])]
    for row, label in zip(features, labels, strict=True):
        lines.append(",".join([str(label), *("" if np.isnan(value) else f"{value:.3f}" for value in row)]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def spec(table: Path) -> Spec:
    """A small run in JSON; keywords replace keys of ``work``."""

    def build(directory: Path, *, world: int = 2, **work: Any) -> dict[str, Any]:
        return {
            "run": "fraud", "identity": "fraud-1",
            "world": {
                "nodes": world, "processes_per_node": 1, "device": "cpu", "node_index_env": "RANK", "control_port": 29400,
                "rendezvous": {"kind": "dmlc-tracker", "host": "localhost", "port": free_port()},
            },
            "lifecycle": {"grace_seconds": 600, "save_seconds": 5},
            "http_port": 9400,
            "work": {
                "kind": "xgboost",
                "booster": {"objective": "binary:logistic", "max_depth": 4, "subsample": 0.8, "colsample_bytree": 0.7},
                "data": {
                    "source": "table", "format": "csv", "path": str(table / "train"), "evaluation_path": str(table / "held-out"),
                    "label": "fraud",
                },
                "rounds": 40,
                "evaluation_metrics": ["auc", "logloss"],
                "checkpoints": {"directory": str(directory), "every_steps": 10},
                "log_every_steps": 5,
                **work,
            },
        }

    return build
