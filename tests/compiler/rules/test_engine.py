"""Work and topology that fit each other."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, findings

NOTHING: Data = dict.fromkeys(("batch", "learning_rate"))
NEWEST: Data = {"trainer_version": "0.2.0"}
BOOSTING: Data = NOTHING | NEWEST | {
    "workload": {
        "kind": "boosting", "booster": {"objective": "binary:logistic"}, "rounds": 10,
        "data": {"source": "table", "format": "csv", "path": "/checkpoints/table", "label": "y"},
    }
}  # fmt: skip
OPERATORS: Data = {
    "operators": {"training-operator": {"version": "1.9"}, "kuberay": {"version": "1.7"}, "mpi-operator": {"version": "0.8"}}
}
NODES: Data = {"nodes": 2, "gpus_per_node": 0}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (BOOSTING | {"topology": {"kind": "xgboost", **NODES}}, []),
        (BOOSTING, ["/topology/kind"]),
        (NEWEST | {"topology": {"kind": "xgboost", **NODES}}, ["/topology/kind"]),
        (NEWEST | {"topology": {"kind": "ddp", **NODES}}, []),
        (NEWEST | {"topology": {"kind": "ray", "version": "2.52.0", **NODES}, "target": "ray-job"}, []),
        (NEWEST | {"topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job"}, []),
        (
            NEWEST | {
                "topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job",
                "workload": {
                    "task": "causal-lm", "data": {"source": "python-stdlib"},
                    "model": {"architecture": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                              "num_hidden_layers": 2, "num_attention_heads": 4},
                },
            },
            ["/workload/model/architecture"],
        ),
    ],
)  # fmt: skip
def test_who_can_train_what(run: Data, expected: list[str]) -> None:
    found = [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    assert [finding.where.pointer for finding in found] == expected
    assert all(finding.fix for finding in found)
