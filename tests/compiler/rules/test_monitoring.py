"""Rules on how a run is watched."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler import example
from tests.compiler.example import Data, codes, command, findings, message, script

from trainwright.findings import Finding

WATCHED: Data = {"kind": "prometheus-operator"}
MANAGED_BY = "app.kubernetes.io/managed-by"


def on_monitoring(run: Data | None = None, monitoring: Any = WATCHED) -> list[Finding]:
    """Those on monitoring."""
    return [finding for finding in example.findings(run, {"monitoring": monitoring}) if finding.code.startswith("TW32")]


@pytest.mark.parametrize(
    ("run", "monitoring", "expected"),
    [
        ({}, WATCHED, []),
        ({}, None, []),
        (command("torchrun", "train.py"), WATCHED, ["TW320"]),
        (command("torchrun", "train.py"), None, []),
        (script("python", "train.py"), WATCHED, ["TW321"]),
        (script("python", "train.py") | {"checkpoints": {"by": "script"}}, WATCHED, []),
        ({}, WATCHED | {"watches": ["training"]}, []),
        ({}, WATCHED | {"watches": []}, ["TW322"]),
        ({}, WATCHED | {"watches": ["monitoring", "other"]}, ["TW322"]),
    ],
)
def test_who_is_watched(run: Data, monitoring: Any, expected: list[str]) -> None:
    assert [finding.code for finding in on_monitoring(run, monitoring)] == expected


@pytest.mark.parametrize(("field", "value"), [
    ("pod_monitor_labels", {MANAGED_BY: "Helm"}), ("rule_labels", {MANAGED_BY: "Helm"}), ("dashboard", {"label": MANAGED_BY}),
])
def test_a_label_that_every_object_has(field: str, value: Data) -> None:
    [finding] = on_monitoring({}, WATCHED | {field: value})
    assert finding.code == "TW323"
    assert "another label" in finding.fix


def test_labels_of_a_run_are_its_own() -> None:
    monitoring = WATCHED | {"rule_labels": {"release": "stack", MANAGED_BY: "trainwright"}, "dashboard": {}}
    assert on_monitoring({"labels": {"release": "7", "grafana_dashboard": "0"}}, monitoring) == []


ON_CPUS: Data = {"topology": {"gpus_per_node": 0}}
BOTH: Data = {"watchdog": {"training": "10m"}, "preflight": {"when": "always"}}


def test_programs_of_the_users_are_not_watched() -> None:
    for work in (script("python", "x.py"), command("torchrun", "x.py")):
        assert codes(work | BOTH) == ["TW207", "TW207"]
        assert codes(work | {"watchdog": {}, "preflight": {"when": "on-gpus"}}) == []
    assert codes(BOTH) == []


def test_thresholds_need_a_check() -> None:
    asked: Data = {"preflight": {"min_tflops": 400, "max_storage": "20s"}}
    assert codes(asked) == []
    assert "the run has none: nothing is compared with min_tflops and max_storage" in message(asked | ON_CPUS)
    assert codes(ON_CPUS | {"preflight": {"min_tflops": 1, "when": "always"}}) == []
    with pytest.raises(ValueError, match="never measures nothing; remove min_tflops and max_storage, or write when: always"):
        codes({"preflight": asked["preflight"] | {"when": "never"}})


def test_an_object_store_is_no_volume_to_measure() -> None:
    store: Data = {"checkpoints": {"store": "s3://example"}, "service_account": "trainer"}
    assert "nothing is compared with max_storage" in message(store | {"preflight": {"max_storage": "20s"}})


def test_boosting_multiplies_no_matrices_on_a_gpu() -> None:
    work: Data = {
        "kind": "boosting", "booster": {"objective": "binary:logistic"}, "rounds": 10,
        "data": {"source": "table", "format": "csv", "path": "/checkpoints/table", "label": "y"},
    }  # fmt: skip
    boosting: Data = {"topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 1}, "workload": work}
    boosting |= dict.fromkeys(("batch", "learning_rate"))
    for key in ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second"):
        assert f"checks no GPU: nothing is compared with {key}" in message(boosting | {"preflight": {key: 0.5}})
    assert codes(boosting | {"preflight": {"max_clock_skew": "5s"}}) == codes(boosting)


TENSORBOARD: Data = {"to": "tensorboard"}
WANDB: Data = {"to": "wandb", "project": "vision"}
OFFLINE: Data = WANDB | {"mode": "offline"}
KEY: Data = {"env": {"WANDB_API_KEY": {"secret": "weights-and-biases", "key": "api-key"}}}
STORE: Data = {"checkpoints": {"store": "s3://example-checkpoints"}, "service_account": "trainer"}


def run(*sinks: Data, **fields: Data) -> Data:
    return {"workload": {"metrics": list(sinks)}, **fields}


@pytest.mark.parametrize(("asked", "places"), [
    (run(), []),
    (run(TENSORBOARD), []),
    (run(TENSORBOARD, OFFLINE), []),
    (run(TENSORBOARD, WANDB), ["/workload/metrics/1"]),
    (run(WANDB) | KEY, []),
    (run(TENSORBOARD, OFFLINE) | STORE, ["/workload/metrics/0", "/workload/metrics/1"]),
    (run(WANDB) | KEY | STORE, []),
])
def test_who_gets_the_metrics(asked: Data, places: list[str]) -> None:
    found = findings(asked)
    assert [(finding.code, finding.where.pointer) for finding in found] == [("TW213", place) for place in places]


def test_a_key_in_plain_text_is_a_secret_like_any_other() -> None:
    assert codes(run(WANDB, env={"WANDB_API_KEY": "0123456789abcdef"})) == ["TW409"]


def test_a_place_is_written_to_once() -> None:
    with pytest.raises(ValueError, match="metrics go to wandb twice; keep one"):
        codes(run(WANDB, TENSORBOARD, OFFLINE))
