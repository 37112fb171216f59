"""What batch and learning rate do while nodes come and go."""

from __future__ import annotations

from math import sqrt

import pytest
from pydantic import ValidationError
from tests.compiler.example import Data, codes, command, compiled

from trainwright.report.plan import plan_rows
from trainwright.topology import ZeRO

CLUSTER: Data = {
    "operators": {"training-operator": {"version": "1.9"}},
    "namespaces": {"training": {"pod_security": "privileged"}},
}


def run(low: int, high: int, **fields: object) -> Data:
    return {
        "target": "pytorch-job", "batch": {"micro": 2, "accumulation": 3},
        "topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 2,
                     "elastic": {"min_nodes": low, "max_nodes": high, **fields}},
    }  # fmt: skip


def test_a_kept_batch_takes_another_accumulation_at_each_size() -> None:
    """48 samples: at 5 nodes 20 at once, so three passes, of which the last is smaller."""
    elastic = compiled(run(2, 6), CLUSTER).plan.elastic
    assert elastic is not None
    assert elastic.keeps_batch
    assert [(size.nodes, size.accumulation, size.effective) for size in elastic.sizes] == [
        (2, 6, 48), (3, 4, 48), (4, 3, 48), (5, 3, 48), (6, 2, 48),
    ]  # fmt: skip
    assert {size.peak for size in elastic.sizes} == {2e-3}
    assert [size.nodes for size in elastic.sizes if not size.full] == [5]


@pytest.mark.parametrize(
    ("low", "high", "batch", "said"),
    [
        (2, 4, "keep", "2 to 4 nodes: the batch stays 48, by accumulation 6 to 3"),
        (2, 5, "keep", "2 to 5 nodes: the batch stays 48, by accumulation 6 to 3; smaller last micro batches at 5 nodes"),
        (4, 10, "keep", "4 to 10 nodes: the batch stays 48, by accumulation 3 to 2; "
                        "smaller last micro batches at 5, 7, 8, 9 and 10 nodes"),
        (2, 10, "move", "2 to 10 nodes: the batch moves from 24 to 120, the learning rate from 2.0e-03 to 2.0e-03"),
    ],
)  # fmt: skip
def test_the_plan_names_the_sizes_whose_steps_end_with_smaller_micro_batches(low: int, high: int, batch: str, said: str) -> None:
    rows = dict(plan_rows(compiled(run(low, high, batch=batch), CLUSTER)))
    assert rows["elastic"] == said


@pytest.mark.parametrize(("high", "batch", "expected"), [(24, "keep", []), (25, "keep", ["TW211"]), (25, "move", [])])
def test_a_kept_batch_has_a_sample_for_each_rank_of_the_largest_size(high: int, batch: str, expected: list[str]) -> None:
    assert codes(run(2, high, batch=batch), CLUSTER) == expected


def test_a_batch_that_moves_takes_the_rate_along() -> None:
    rate = {"base": 1e-3, "base_batch": 48, "scaling": "square_root", "warmup_steps": 10}
    elastic = compiled(run(2, 8, batch="move") | {"learning_rate": rate}, CLUSTER).plan.elastic
    assert elastic is not None
    assert not elastic.keeps_batch
    assert [size.effective for size in elastic.sizes] == [24, 36, 48, 60, 72, 84, 96]
    assert [size.accumulation for size in elastic.sizes] == [3] * 7
    assert [size.peak for size in elastic.sizes] == [pytest.approx(1e-3 * sqrt(size.effective / 48)) for size in elastic.sizes]


def test_at_the_size_it_starts_with_an_elastic_run_is_the_plan() -> None:
    plan = compiled(run(1, 8), CLUSTER).plan
    assert plan.elastic is not None
    assert plan.batch is not None
    assert plan.learning_rate is not None
    (start,) = [size for size in plan.elastic.sizes if size.nodes == 4]
    assert (start.accumulation, start.effective, start.peak) == (
        plan.batch.accumulation,
        plan.batch.effective,
        plan.learning_rate.peak,
    )


@pytest.mark.parametrize("fields", [{}, command("torchrun", "train.py") | {"target": "pytorch-job"}], ids=["fixed", "opaque"])
def test_there_is_nothing_to_say_of_other_runs(fields: Data) -> None:
    elastic: Data = {"topology": run(2, 8)["topology"]} if "workload" in fields else {}
    assert compiled(fields | elastic, CLUSTER).plan.elastic is None


FSDP2: Data = {"kind": "zero3", "engine": "fsdp2"}


def test_shards_are_those_of_the_fewest_nodes() -> None:
    elastic, small = run(2, 6), run(2, 6)
    elastic["topology"] |= FSDP2
    small["topology"] |= FSDP2 | {"nodes": 2, "elastic": None}
    one, other = compiled(elastic, CLUSTER).plan, compiled(small | {"target": "indexed-job"}, CLUSTER).plan
    assert one.world.nodes == 4
    assert one.memory is not None
    assert "/ 4 ranks" in next(part.formula for part in one.memory.parts if part.name == "weights")
    assert one.memory == other.memory
    assert one.checkpoint is not None
    assert other.checkpoint is not None
    assert one.checkpoint.save_seconds == other.checkpoint.save_seconds


def test_batch_and_rate_of_shards_are_those_of_whole_models() -> None:
    sharded = run(2, 6)
    sharded["topology"] |= FSDP2
    one, other = compiled(sharded, CLUSTER), compiled(run(2, 6), CLUSTER)
    assert one.plan.elastic == other.plan.elastic
    assert one.plan.guarantees == other.plan.guarantees
    assert {"exit codes", "SIGTERM save"} <= set(one.plan.guarantees)
    for result in (one, other):
        assert result.resolution.spec is not None
        assert result.resolution.spec.world.rendezvous.kind == "c10d"


@pytest.mark.parametrize("kind", ["zero1", "zero2", "zero3"])
def test_deepspeed_has_one_number_of_ranks(kind: str) -> None:
    with pytest.raises(ValidationError, match=r"sharded for its number of ranks.* engine: fsdp2"):
        ZeRO.model_validate(run(2, 6)["topology"] | {"kind": kind, "engine": "deepspeed"})


def test_how_long_a_round_waits_for_more_nodes_is_a_choice() -> None:
    def last_call(data: Data) -> str:
        job = next(one for one in compiled(data, CLUSTER).manifests if one["kind"] == "PyTorchJob")
        settings = job["spec"]["elasticPolicy"]["rdzvConf"]
        return next(str(each["value"]) for each in settings if each["key"] == "last_call_timeout")

    assert last_call(run(2, 8)) == "2"
    assert last_call(run(2, 8, last_call="30s")) == "30"
