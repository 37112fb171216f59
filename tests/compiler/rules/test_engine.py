"""Work and topology that fit each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.compiler.example import Data, compiled, findings

from trainwright.handshake import Guarantee
from trainwright_trainer.contract.capabilities import CAPABILITIES

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
HOROVOD: Data = {"topology": {"kind": "horovod", **NODES}, "target": "mpi-job"}


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
        (
            NEWEST | {
                "topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job",
                "workload": {"activation_checkpointing": True, "precision": "fp16", "compile": True},
            },
            ["/workload/precision", "/workload/activation_checkpointing", "/workload/compile"],
        ),
        (NEWEST | {"topology": {"kind": "ddp", **NODES}, "workload": {"activation_checkpointing": True, "compile": True}}, []),
        (NEWEST | {"workload": {"skip_non_finite": 3}, "checkpoints": {"save": "background"}}, []),
        (
            NEWEST | {
                "topology": {"kind": "zero3", "engine": "deepspeed", "nodes": 2, "gpus_per_node": 8},
                "workload": {"skip_non_finite": 3}, "checkpoints": {"save": "background"},
            },
            ["/workload/skip_non_finite", "/checkpoints/save"],
        ),
        (NEWEST | HOROVOD | {"workload": {"gradient_reduction": "bf16"}}, ["/workload/gradient_reduction"]),
        (NEWEST | HOROVOD | {"workload": {"gradient_reduction": "fp16"}}, []),
        (
            NEWEST | {
                "topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job",
                "workload": {"gradient_reduction": "bf16"},
            },
            ["/workload/gradient_reduction"],
        ),
        (
            NEWEST | {"topology": {"kind": "zero3", "engine": "deepspeed", **NODES}, "checkpoints": {"save": "blocking"}},
            [],
        ),
    ],
)  # fmt: skip
def test_who_can_train_what(run: Data, expected: list[str]) -> None:
    found = [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    assert [finding.where.pointer for finding in found] == expected
    assert all(finding.fix for finding in found)


def test_nodes_that_come_and_go_need_an_engine_that_reshards(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Data = NEWEST | {"topology": {"kind": "ddp", **NODES, "elastic": {"min_nodes": 1, "max_nodes": 2}}}
    assert not [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    monkeypatch.setitem(CAPABILITIES, "ddp", replace(CAPABILITIES["ddp"], reshards=False))
    [found] = [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    assert found.where.pointer == "/topology/elastic"


def test_a_plan_promises_what_its_engine_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    promised = set(compiled(NEWEST).plan.guarantees)
    monkeypatch.setitem(CAPABILITIES, "ddp", replace(CAPABILITIES["ddp"], reshards=False, sigterm_save=False))
    assert promised - set(compiled(NEWEST).plan.guarantees) == {Guarantee.RESHARD.value, Guarantee.SIGTERM_SAVE.value}
