"""Which metrics a run serves: as the trainer's own reports have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from tests.compiler.example import Data, compiled, script
from tests.compiler.findings.page import overlay
from tests.compiler.operators.test_tf_job import WORKERS
from tests.compiler.operators.test_xgboost_job import BOOSTING, OPERATORS
from tests.served import (
    KNOWN_BESIDE_OTHERS,
    LEFT_OUT_IMAGES,
    LIMITS,
    OF_PREFLIGHT,
    PACE,
    SUPERVISED,
    UNHEALTHY_NODE,
    UNKNOWN_TO_BOOSTING_ON_GPUS,
    served_by,
)

from trainwright_trainer.boosting.report import BoostingReport
from trainwright_trainer.contract.limits import ATTEMPTS_LIMIT, PODS_LIMIT, limits
from trainwright_trainer.contract.metrics import METRICS, StepSplit
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.reporting import Reporter, Speed

HERE, AT, SPEED = Place(0, 1, 0, 0), Position(10, 320), Speed(32.0, StepSplit(step_seconds=1.0, waited_seconds=0.5))


class Notes:
    """What a link is told."""

    def __init__(self) -> None:
        self.names = set[str]()

    def measured(self, values: Mapping[str, float]) -> None:
        self.names |= values.keys()

    def pace(self, step: int, split: StepSplit) -> None:
        pass


def of_a_step() -> set[str]:
    """As torch and TensorFlow report it."""
    notes = Notes()
    Reporter(HERE, cast("Link", notes)).step(AT, 0.5, 1.0, 1.0, 0.1, SPEED)
    return notes.names


def of_a_round() -> set[str]:
    notes = Notes()
    BoostingReport(HERE, cast("Link", notes)).step(AT, SPEED)
    return notes.names


def served(run: Data) -> frozenset[str]:
    return served_by(spec(run))


def spec(run: Data) -> RunSpec:
    found = compiled(run, OPERATORS).resolution.spec
    assert found is not None
    return found


def test_our_trainer_serves_the_table() -> None:
    images = {"source": "image-folder", "path": "/checkpoints/images", "image_size": 8, "channels": 1, "classes": 10}
    both = {"checkpoints": {"every": "30m", "every_steps": 100}}
    assert served({"workload": {"data": images}, **both}) == set(METRICS) - {UNHEALTHY_NODE}
    assert served(both) == set(METRICS) - {UNHEALTHY_NODE, LEFT_OUT_IMAGES}, "images that are no files cannot be broken"


@pytest.mark.parametrize(("run", "reported"), [({}, of_a_step()), (WORKERS, of_a_step()), (BOOSTING, of_a_round())])
def test_of_a_step_is_served_what_is_reported(run: Data, reported: set[str]) -> None:
    assert served(run) & (of_a_step() | of_a_round()) == reported


def test_tensorflow_serves_all_but_how_long_it_stands_still() -> None:
    unserved = set(METRICS) - LIMITS - {UNHEALTHY_NODE} - served(WORKERS)
    assert unserved == {"trainwright_checkpoint_stall_seconds", LEFT_OUT_IMAGES, *PACE}, "and nothing connects a TFJob's pods"


def test_no_supervisor_of_an_elastic_run_hears_all_ranks() -> None:
    elastic = {"topology": {"elastic": {"min_nodes": 1, "max_nodes": 2, "batch": "keep"}}, "target": "pytorch-job"}
    operators = {"operators": {"training-operator": {"version": "1.9.4"}}}
    found = compiled(elastic, operators).resolution.spec
    assert found is not None
    assert set(served({})) - served_by(found) == set(PACE)


def test_a_gpu_that_boosts_is_not_tried_with_a_matrix_product() -> None:
    always, on_gpus = {"preflight": {"when": "always"}}, {"topology": {"gpus_per_node": 1}}
    assert served(overlay(BOOSTING, always)) - served(overlay(BOOSTING, on_gpus)) == {
        *UNKNOWN_TO_BOOSTING_ON_GPUS, *PACE,
    }


def test_a_preflight_that_is_not_made_measures_nothing() -> None:
    assert not served(BOOSTING) & set(OF_PREFLIGHT), "on CPUs it is made where it is asked for"
    assert set(OF_PREFLIGHT) <= served(overlay(BOOSTING, {"preflight": {"when": "always"}}))
    assert not served({"preflight": {"when": "never"}}) & set(OF_PREFLIGHT)


def test_a_rank_alone_has_nobody_to_be_compared_with() -> None:
    alone = served({"topology": {"nodes": 1, "gpus_per_node": 1}})
    assert served({}) - alone == set(KNOWN_BESIDE_OTHERS)


@pytest.mark.parametrize(
    ("metrics", "scores"),
    [([], {"loss"}), (["error"], {"accuracy"}), (["auc"], set()), (["auc", "error", "logloss"], {"loss", "accuracy"})],
)
def test_trees_are_scored_by_what_the_run_asks_for(metrics: list[str], scores: set[str]) -> None:
    found = served(overlay(BOOSTING, {"workload": {"evaluation_metrics": metrics}}))
    assert {name.rpartition("_")[2] for name in found if "evaluation" in name} == scores


def test_a_script_serves_what_its_supervisor_knows() -> None:
    assert served({**script("python", "train.py")}) == {*SUPERVISED, PODS_LIMIT, ATTEMPTS_LIMIT}


def test_nothing_keeps_count_without_a_volume() -> None:
    run = {**script("python", "train.py"), "mounts": {"/checkpoints": None}}
    assert served(run) == {*SUPERVISED, PODS_LIMIT} - {"trainwright_attempt"}


# --- limits -------------------------------------------------------------------------------------------------------------------


def test_limits_follow_the_run() -> None:
    by_time, by_steps = (limits(spec({"checkpoints": each})) for each in ({"every": "10m"}, {"every_steps": 500}))
    assert "trainwright_unsaved_limit_seconds" not in by_steps
    assert by_steps["trainwright_unsaved_limit_steps"] == 2 * 500 + 3 * 10
    assert "trainwright_unsaved_limit_steps" not in by_time
    assert 2 * 600 < by_time["trainwright_unsaved_limit_seconds"] < 3 * 600
    assert by_time["trainwright_save_limit_seconds"] == compiled().resolution.plan.grace.seconds - 5
    assert [limits(spec({"topology": {"nodes": nodes}}))[PODS_LIMIT] for nodes in (2, 8)] == [8, 32]


def test_a_boosting_run_has_the_limits_of_a_trainer() -> None:
    assert limits(spec(BOOSTING)).keys() == LIMITS - {"trainwright_unsaved_limit_steps"}


def test_a_run_that_is_scored_after_each_round_may_spend_its_time_on_that() -> None:
    early = overlay(BOOSTING, {"workload": {"data": {"evaluation_path": "/data/held-out"}, "early_stopping_rounds": 20}})
    assert limits(spec(BOOSTING)).keys() - limits(spec(early)).keys() == {"trainwright_goodput_limit"}
