"""What watches ranks and checks nodes, where there is something to watch and to check."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, message, script

NEW: Data = {"trainer_version": "0.2.0"}
ON_CPUS: Data = {"topology": {"gpus_per_node": 0}}
BOTH: Data = {"watchdog": {"training": "10m"}, "preflight": {"when": "always"}}


def test_programs_of_the_users_are_not_watched() -> None:
    for work in (script("python", "x.py"), command("torchrun", "x.py")):
        assert codes(NEW | work | BOTH) == ["TW207", "TW207"]
        assert codes(NEW | work | {"watchdog": {}, "preflight": {"when": "on-gpus"}}) == []
    assert codes(NEW | BOTH) == []


def test_thresholds_need_a_check() -> None:
    asked: Data = {"preflight": {"min_tflops": 400, "max_storage": "20s"}}
    assert codes(NEW | asked) == []
    assert "the run has none: nothing is compared with min_tflops and max_storage" in message(NEW | asked | ON_CPUS)
    assert codes(NEW | ON_CPUS | {"preflight": {"min_tflops": 1, "when": "always"}}) == []
    with pytest.raises(ValueError, match="never measures nothing; remove min_tflops and max_storage, or write when: always"):
        codes(NEW | {"preflight": asked["preflight"] | {"when": "never"}})


def test_an_object_store_is_no_volume_to_measure() -> None:
    store: Data = {"checkpoints": {"store": "s3://example"}, "service_account": "trainer"}
    assert "nothing is compared with max_storage" in message(NEW | store | {"preflight": {"max_storage": "20s"}})


def test_boosting_multiplies_no_matrices_on_a_gpu() -> None:
    work: Data = {
        "kind": "boosting", "booster": {"objective": "binary:logistic"}, "rounds": 10,
        "data": {"source": "table", "format": "csv", "path": "/checkpoints/table", "label": "y"},
    }  # fmt: skip
    boosting: Data = NEW | {"topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 1}, "workload": work}
    boosting |= dict.fromkeys(("batch", "learning_rate"))
    for key in ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second"):
        assert f"checks no GPU: nothing is compared with {key}" in message(boosting | {"preflight": {key: 0.5}})
    assert codes(boosting | {"preflight": {"max_clock_skew": "5s"}}) == codes(boosting)
