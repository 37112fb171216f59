"""The efficiency on paper obeys what everybody knows of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from trainwright.cluster.model import NodePool
from trainwright.plan.communication import scaling
from trainwright.plan.model import BatchPlan
from trainwright.report.tables import MODELS, SHARDINGS
from trainwright.run import TrainerWorkload

WORK: dict[str, Any] = {
    "kind": "trainer", "task": "causal-lm", "precision": "bf16", "epochs": 1,
    "data": {"source": "tokens", "path": "/data/tokens", "sequence_length": 2048, "dtype": "uint32"},
}


def efficiencies(
    size: str = "8 B", sharding: str = "FSDP2", gigabits: int = 400, micro: int = 4, accumulation: int = 1, gpu: str = "H100"
) -> list[tuple[float, float]] | None:
    work = TrainerWorkload.model_validate({**WORK, "model": MODELS[size].model_dump(exclude_none=True)})
    pool = NodePool.model_validate({
        "gpu": {"model": gpu, "memory": "80Gi", "per_node": 8}, "cpus": 180, "memory": "1800Gi",
        "fabric": {"links": 1, "gigabits_per_link": gigabits},
    })
    found = scaling(work, BatchPlan(micro, accumulation, 8, micro * accumulation * 8), SHARDINGS[sharding], pool)
    return None if found is None else [(each.low, each.high) for each in found]


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
])
def test_what_helps(worse: dict[str, Any], better: dict[str, Any]) -> None:
    less, more = efficiencies(**worse), efficiencies(**better)
    assert less is not None
    assert more is not None
    assert all(one[0] < other[0] for one, other in zip(less[1:], more[1:], strict=True))


def test_a_number_by_hand() -> None:
    """8 P bytes of gradients over 50 GB/s against 6 P operations a token at 40 % of 989 TFLOP/s; hops and (N - 1) / N aside."""
    found = efficiencies(sharding="DDP", gigabits=400)
    assert found is not None
    parameters = MODELS["8 B"].parameters
    compute, sent = 6 * parameters * 2048 * 4 / (0.4 * 989e12), 8 * parameters / 50e9
    assert found[1][0] == pytest.approx(compute / (compute + sent), rel=0.03)


def test_an_unknown_gpu_gets_no_number() -> None:
    assert efficiencies(gpu="Unobtainium") is None
