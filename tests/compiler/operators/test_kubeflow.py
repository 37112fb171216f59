"""What the kinds of the Training Operator share."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import Data, command, compiled, script
from tests.compiler.objects import the

OPERATOR: Data = {
    "operators": {"training-operator": {"version": "1.9"}}, "namespaces": {"training": {"pod_security": "baseline"}},
}  # fmt: skip
KINDS: dict[str, Data] = {
    "pytorch-job": {"topology": {"kind": "ddp", "gpus_per_node": 8}},
    "tf-job": {"topology": {"kind": "multi-worker-mirrored", "gpus_per_node": 8}},
    "xgboost-job": {"topology": {"kind": "xgboost", "gpus_per_node": 1}},
}


def spec_of(target: str, nodes: int, restarts: int, work: Data) -> Any:
    topology = KINDS[target]["topology"] | {"nodes": nodes}
    result = compiled({"target": target, "restarts": restarts, "topology": topology} | work, OPERATOR)
    return result.manifests[-1]["spec"]


def past_backoff_limit(restarts_of_pods: list[int], limit: int) -> bool:
    """As pkg/controller.v1/common/job.go has it: the sum over all running pods."""
    total = sum(restarts_of_pods)
    return total > 0 if limit == 0 else total >= limit


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize(("nodes", "restarts", "limit"), [(1, 3, 4), (4, 3, 13), (4, 1, 5), (4, 0, 0), (16, 10, 161)])
def test_a_command_has_its_restarts_though_each_brings_every_pod_down(target: str, nodes: int, restarts: int, limit: int) -> None:
    spec = spec_of(target, nodes, restarts, command("python", "train.py"))
    assert spec["runPolicy"]["backoffLimit"] == limit
    assert {replica["restartPolicy"] for key in spec if key.endswith("ReplicaSpecs") for replica in spec[key].values()} == {
        "OnFailure"
    }
    assert not past_backoff_limit([restarts] * nodes, limit), "all that were asked for"
    assert past_backoff_limit([restarts + 1] * nodes, limit), "and no more"


@pytest.mark.parametrize(("smallest", "largest", "limit"), [(4, 64, 6401), (2, 4, 401)])
def test_an_elastic_command_has_its_restarts_at_its_largest_size(smallest: int, largest: int, limit: int) -> None:
    elastic = {"min_nodes": smallest, "max_nodes": largest}
    topology = {"kind": "ddp", "nodes": 4, "gpus_per_node": 8, "elastic": elastic}
    run = {"target": "pytorch-job", "restarts": 100, "topology": topology} | command("python", "train.py")
    spec: Any = the(compiled(run, OPERATOR), "PyTorchJob")["spec"]
    assert spec["runPolicy"]["backoffLimit"] == limit
    assert not past_backoff_limit([100] * largest, limit)


@pytest.mark.parametrize("nodes", [1, 4])
def test_under_the_supervisor_pods_are_made_anew_and_none_restarts(nodes: int) -> None:
    spec = spec_of("pytorch-job", nodes, 3, {**script("python", "train.py")})
    assert spec["runPolicy"]["backoffLimit"] == 3
    assert {replica["restartPolicy"] for replica in spec["pytorchReplicaSpecs"].values()} == {"ExitCode"}
