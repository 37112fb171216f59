"""Rules in training terms."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import Data, codes, command, compiled, findings, message, script

from trainwright.findings import Severity
from trainwright.handshake import Guarantee
from trainwright_trainer.contract.engine import CAPABILITIES


def rate(**fields: Any) -> dict[str, Any]:
    return {"learning_rate": {"base": 1e-3, "base_batch": 16, "warmup_steps": 0} | fields}


SGD = {"workload": {"optimizer": {"kind": "sgd"}}}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (rate(scaling="linear", warmup_steps=10), ["TW203"]),
        (rate(scaling="linear", warmup_steps=10) | SGD, []),
        (rate(scaling="square_root"), []),
        (rate(scaling="square_root", base_batch=4), ["TW204"]),
        (rate(scaling="square_root", base_batch=4, warmup_steps=1), []),
        (rate(scaling="linear") | SGD, ["TW204"]),
        (rate(scaling="linear", base_batch=32) | SGD, []),
    ],
)
def test_scaling_of_the_learning_rate(run: dict[str, Any], expected: list[str]) -> None:
    assert codes(run) == expected


STATED = {"learning_rate": {"base": 1e-3, "warmup_steps": 0}}
"""No rule, and no batch."""


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (rate(base_batch=8), ["TW214"]),
        (rate(base_batch=64), ["TW214"]),
        (rate(base_batch=16), ["TW214"]),
        (rate(base_batch=128), []),
        (rate(base_batch=8, scaling="none"), []),
        (rate(base_batch=8) | SGD, ["TW214"]),
        (rate(base_batch=128) | SGD, []),
        (STATED, []),
        (STATED | SGD, ["TW215"]),
        (STATED | SGD | {"topology": {"nodes": 1, "gpus_per_node": 1}}, []),
        ({"learning_rate": {"base": 1e-3, "scaling": "none", "warmup_steps": 0}} | SGD, []),
    ],
)
def test_a_rate_says_what_batch_it_is_for(run: dict[str, Any], expected: list[str]) -> None:
    assert codes(run) == expected


def test_the_rule_that_is_proposed_fits_the_optimizer() -> None:
    assert "base was tuned for a batch of 8, the run has 128" in message(rate(base_batch=8))
    assert "scaling: square_root" in message(rate(base_batch=8))
    assert "scaling: linear" in message(rate(base_batch=8) | SGD)


def test_a_batch_that_moves_leaves_the_one_that_the_rate_is_for() -> None:
    elastic = {"target": "pytorch-job", "topology": {"elastic": {"min_nodes": 1, "max_nodes": 4, "batch": "move"}}}
    cluster = {"operators": {"training-operator": {"version": "1.9"}}, "namespaces": {"training": {"pod_security": "baseline"}}}
    assert "TW214" not in codes(rate(base_batch=128), cluster)
    (said,) = [finding for finding in findings(rate(base_batch=128) | elastic, cluster) if finding.code == "TW214"]
    assert "the run has 64 to 256" in said.message
    elastic["topology"]["elastic"]["batch"] = "keep"  # type: ignore[index]
    assert "TW214" not in codes(rate(base_batch=128) | elastic, cluster)


@pytest.mark.parametrize("missing", [["batch"], ["learning_rate"], ["batch", "learning_rate"]])
def test_our_trainer_needs_batch_and_learning_rate(missing: list[str]) -> None:
    assert codes(dict.fromkeys(missing)) == ["TW201"] * len(missing)


@pytest.mark.parametrize(("version", "expected"), [("0.2.0", []), ("0.0.1", ["TW202"])])
def test_the_version_in_the_image(version: str, expected: list[str]) -> None:
    assert codes({"trainer_version": version}) == expected
    assert codes(script("python", "x.py") | {"trainer_version": version}) == expected


def test_the_batch_must_fit_the_data() -> None:
    assert codes({"batch": {"micro": 89}}) == []
    assert codes({"batch": {"micro": 90}}) == ["TW206"]
    assert "1,440 is larger than the data, 1,438 samples" in message({"batch": {"micro": 90}})


LLAMA: Data = {
    "architecture": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
TEXT: Data = {"task": "causal-lm", "model": LLAMA}
IMAGES: Data = {"source": "image-folder", "path": "/checkpoints/x", "image_size": 8, "channels": 1, "classes": 10}


TOKENS: Data = {"source": "tokens", "path": "/checkpoints/x", "sequence_length": 64, "held_out": 0.5}
ROWS: Data = {"source": "hf-dataset", "path": "/checkpoints/x", "tokenizer": "/checkpoints/y", "max_length": 64}


@pytest.mark.parametrize(("work", "samples"), [
    ({"data": IMAGES}, 128), (TEXT | {"data": TOKENS}, 256), (TEXT | {"data": ROWS}, 128),
], ids=["image-folder", "tokens", "hf-dataset"])
def test_the_batch_must_fit_data_of_any_source(work: Data, samples: int) -> None:
    """As far as the run says how much there is. What is held out of it does not count."""
    def found(data: Data) -> list[str]:
        return codes({"workload": {**work, "data": {**work["data"], **data}}})

    assert found({}) == found({"samples": samples}) == []
    assert found({"samples": samples - 2}) == ["TW206"]


def test_batch_norm_and_accumulation() -> None:
    model = {"architecture": "resnet", "image_size": 8, "num_channels": 1, "hidden_sizes": [16], "depths": [1], "num_labels": 10}
    assert codes({"workload": {"model": model}, "batch": {"accumulation": 2}}) == ["TW205"]
    assert codes({"workload": {"model": model}}) == []
    assert codes({"batch": {"accumulation": 2}}) == []


@pytest.mark.parametrize(
    "field",
    [
        {"batch": {"micro": 8}},
        {"learning_rate": {"base": 1e-3, "warmup_steps": 0}},
        {"checkpoints": {"every_steps": 5}},
        {"checkpoints": {"resume": "never"}},
        {"checkpoints": {"save": "blocking"}},
        {"checkpoints": {"failed_saves": 1}},
    ],
)
@pytest.mark.parametrize("work", [script("python", "x.py"), command("torchrun", "x.py")], ids=["script", "command"])
def test_fields_that_only_our_trainer_reads(work: dict[str, Any], field: dict[str, Any]) -> None:
    (finding,) = findings(work | field)
    assert (finding.code, finding.severity) == ("TW207", Severity.INFO)


def test_only_images_in_files_are_left_out() -> None:
    assert codes({"workload": {"skip_unreadable": 3}}) == ["TW207"]


def test_fields_that_no_command_reads() -> None:
    assert codes(command("torchrun", "x.py") | {"peer_wait": "1h", "trainer_version": "0.2.0"}) == ["TW207", "TW207"]
    assert codes(command("torchrun", "x.py") | {"peer_lost": "1m"}) == ["TW207"]
    assert codes(script("python", "x.py") | {"peer_wait": "1h"}) == []


NOTHING: Data = dict.fromkeys(("batch", "learning_rate"))
BOOSTING: Data = NOTHING | {
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
        ({"topology": {"kind": "xgboost", **NODES}}, ["/topology/kind"]),
        ({"topology": {"kind": "ddp", **NODES}}, []),
        ({"topology": {"kind": "ray", "version": "2.52.0", **NODES}, "target": "ray-job"}, []),
        ({"topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job"}, []),
        (
            {
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
            {
                "topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job",
                "workload": {"activation_checkpointing": True, "precision": "fp16", "compile": True},
            },
            ["/workload/precision", "/workload/activation_checkpointing", "/workload/compile"],
        ),
        ({"topology": {"kind": "ddp", **NODES}, "workload": {"activation_checkpointing": True, "compile": True}}, []),
        ({"workload": {"skip_non_finite": 3}, "checkpoints": {"save": "background"}}, []),
        (
            {
                "topology": {"kind": "zero3", "engine": "deepspeed", "nodes": 2, "gpus_per_node": 8},
                "workload": {"skip_non_finite": 3}, "checkpoints": {"save": "background"},
            },
            ["/workload/skip_non_finite", "/checkpoints/save"],
        ),
        (HOROVOD | {"workload": {"gradient_reduction": "bf16"}}, ["/workload/gradient_reduction"]),
        (HOROVOD | {"workload": {"gradient_reduction": "fp16"}}, []),
        (
            {
                "topology": {"kind": "multi-worker-mirrored", **NODES}, "target": "tf-job",
                "workload": {"gradient_reduction": "bf16"},
            },
            ["/workload/gradient_reduction"],
        ),
        (
            {"topology": {"kind": "zero3", "engine": "deepspeed", **NODES}, "checkpoints": {"save": "blocking"}},
            [],
        ),
    ],
)  # fmt: skip
def test_who_can_train_what(run: Data, expected: list[str]) -> None:
    found = [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    assert [finding.where.pointer for finding in found] == expected
    assert all(finding.fix for finding in found)


def test_nodes_that_come_and_go_need_an_engine_that_reshards(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Data = {"topology": {"kind": "ddp", **NODES, "elastic": {"min_nodes": 1, "max_nodes": 2}}}
    assert not [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    monkeypatch.setitem(CAPABILITIES, "ddp", CAPABILITIES["ddp"]._replace(reshards=False))
    [found] = [finding for finding in findings(run, OPERATORS) if finding.code == "TW210"]
    assert found.where.pointer == "/topology/elastic"


def test_a_plan_promises_what_its_engine_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    promised = set(compiled({}).plan.guarantees)
    monkeypatch.setitem(CAPABILITIES, "ddp", CAPABILITIES["ddp"]._replace(reshards=False, sigterm_save=False))
    assert promised - set(compiled({}).plan.guarantees) == {Guarantee.RESHARD.value, Guarantee.SIGTERM_SAVE.value}
