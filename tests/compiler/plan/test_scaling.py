"""The efficiency on paper obeys what everybody knows of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.tables import MODELS, SHARDINGS

from trainwright.cluster.model import NodePool
from trainwright.plan.estimate.scaling import collective_seconds, scaling
from trainwright.plan.model import BatchPlan
from trainwright.run import TrainerWorkload
from trainwright_trainer.contract.estimate.traffic import Collective

WORK: dict[str, Any] = {
    "kind": "trainer", "task": "causal-lm", "precision": "bf16", "epochs": 1,
    "data": {"source": "tokens", "path": "/data/tokens", "sequence_length": 2048, "dtype": "uint32"},
}


def efficiencies(
    size: str = "8 B", sharding: str = "FSDP2", gigabits: int = 400, micro: int = 4, accumulation: int = 1, gpu: str = "H100",
    utilization: float | None = None, precision: str = "bf16",
) -> list[tuple[float, float]] | None:
    work = TrainerWorkload.model_validate({**WORK, "precision": precision, "model": MODELS[size].model_dump(exclude_none=True)})
    pool = NodePool.model_validate({
        "gpu": {"model": gpu, "memory": "80Gi", "per_node": 8, "utilization": utilization}, "cpus": 180, "memory": "1800Gi",
        "fabric": {"links": 1, "gigabits_per_link": gigabits},
    })
    found = scaling(work, BatchPlan(micro, accumulation, 8, micro * accumulation * 8), SHARDINGS[sharding], pool)
    return None if found is None else [(each.low, each.high) for each in found.efficiencies]


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_never_more_than_all_of_a_gpu_and_never_better_with_more_of_them(sharding: str) -> None:
    found = efficiencies(sharding=sharding)
    assert found is not None
    assert found[0] == (1.0, 1.0)  # one node sends nothing to another
    for (low, high), (next_low, next_high) in pairwise(found):
        assert 0 < next_low <= low <= high <= 1
        assert next_high <= high


@pytest.mark.parametrize(("worse", "better"), [
    ({"gigabits": 100}, {"gigabits": 400}),
    ({"micro": 1}, {"micro": 4}),
    ({"sharding": "DDP", "accumulation": 1}, {"sharding": "DDP", "accumulation": 8}),
    ({"sharding": "FSDP2"}, {"sharding": "ZeRO-3 (DeepSpeed)"}),
    ({"gpu": "H100"}, {"gpu": "A100"}),
    ({"utilization": None}, {"utilization": 0.3}),  # what computes for longer hides more
    ({"sharding": "FSDP2"}, {"sharding": "FSDP2, groups of 8"}),
    ({"sharding": "DDP"}, {"sharding": "FSDP2, groups of 8"}),  # a block's sum is a longer message than a bucket's
])
def test_what_helps(worse: dict[str, Any], better: dict[str, Any]) -> None:
    less, more = efficiencies(**worse), efficiencies(**better)
    assert less is not None
    assert more is not None
    assert all(one[0] < other[0] for one, other in zip(less[1:], more[1:], strict=True))


def test_a_number_by_hand() -> None:
    """8 P bytes of gradients at 92 % of 50 GB/s against 6 P operations a token at 40 % of 989 TFLOP/s. A tree over 8 nodes takes
    8.4 + 2 (7 x 4 + 3 x 14) microseconds for each bucket of 25 MiB; a ring would need 8.4 + 112 x 3.4 + 14 x 14.
    """
    found = efficiencies(sharding="DDP", gigabits=400)
    assert found is not None
    parameters = MODELS["8 B"].parameters
    compute = 6 * parameters * 2048 * 4 / (0.4 * 989e12)
    sent = 8 * parameters / (0.92 * 50e9) + 4 * parameters / (25 * 2**20) * 148.4e-6
    assert found[1][0] == pytest.approx(compute / (compute + sent), rel=1e-3)


@pytest.mark.parametrize(("made", "seconds"), [
    (Collective("all-gather", 64 * 10**9, 10, 64, 8, 1), 63 / 50 + 10 * (8.4 + 56 * 3.4 + 7 * 14) / 1e6),
    (Collective("reduce-scatter", 64 * 10**9, 10, 64, 8, 1), 63 / 50 + 10 * (8.4 + 56 * 3.4 + 7 * 14) / 1e6),
    (Collective("all-reduce", 64 * 10**9, 10, 64, 8, 1), 2 * 63 / 50 + 10 * (8.4 + 112 * 3.4 + 14 * 14) / 1e6),  # a ring
    (Collective("all-reduce", 64 * 10**6, 1, 4096, 8, 1), 0.128 / 46 + (8.4 + 2 * (7 * 4 + 9 * 14)) / 1e6),  # a tree
    (Collective("all-reduce", 8 * 10**9, 1, 8, 1, 8), 8 * 2 * 7 / 50 + (8.4 + 14 * 14) / 1e6),  # eight rings at once
])
def test_terms_are_those_of_nccl(made: Collective, seconds: float) -> None:
    assert collective_seconds(made, 50e9) == pytest.approx(seconds)


@pytest.mark.parametrize(("gpu", "fabric", "assumed"), [
    ({}, {"links": 8, "gigabits_per_link": 400}, ("40 % of the GPU's peak", "NCCL's own latencies")),
    ({"utilization": 0.43}, {"gigabits_per_link": 400}, ("NCCL's own latencies",)),
    ({}, {}, ("40 % of the GPU's peak", "1 x 10 Gb/s", "NCCL's own latencies")),
])
def test_it_says_what_it_rests_on(gpu: dict[str, Any], fabric: dict[str, Any], assumed: tuple[str, ...]) -> None:
    work = TrainerWorkload.model_validate({**WORK, "model": MODELS["8 B"].model_dump(exclude_none=True)})
    pool = NodePool.model_validate({
        "gpu": {"model": "H100", "memory": "80Gi", "per_node": 8, **gpu}, "cpus": 180, "memory": "1800Gi", "fabric": fabric,
    })
    found = scaling(work, BatchPlan(4, 1, 8, 32), SHARDINGS["FSDP2"], pool)
    assert found is not None
    assert found.assumed == assumed


def test_an_unknown_rate_gets_no_number() -> None:
    """The table of peaks has the 16-bit ones."""
    assert efficiencies(gpu="Unobtainium") is None
    assert efficiencies(precision="fp32") is None
    assert efficiencies(precision="fp16") is not None
