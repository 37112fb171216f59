"""What a queue of Kueue could give now: its own quota, what its cohort lends, and what may be borrowed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.compiler.live.test_beside import JOB, Data

from trainwright.live.admission import admission, worst
from trainwright.live.snapshot import of_list

GPU = "nvidia.com/gpu"
CARRIER: Data = copy.deepcopy(JOB)
CARRIER["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
CARRIER["spec"] |= {"completions": 4, "parallelism": 4}
CARRIER["spec"]["template"] = {"metadata": {}, "spec": {
    "nodeSelector": {"pool": "h100"}, "containers": [{"name": "a", "resources": {"requests": {GPU: "8"}, "limits": {GPU: "8"}}}],
}}  # fmt: skip
LOCAL: Data = {
    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "team", "namespace": "training"},
    "spec": {"clusterQueue": "own"},
}  # fmt: skip


def queue(name: str, nominal: int, used: int = 0, cohort: str = "", flavor: str = "h100", **limits: int) -> Data:
    quota = {"name": GPU, "nominalQuota": str(nominal), **{f"{key}Limit": str(value) for key, value in limits.items()}}
    group = {"coveredResources": [GPU], "flavors": [{"name": flavor, "resources": [quota]}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {"resourceGroups": [group], **({"cohortName": cohort} if cohort else {})},
        "status": {"flavorsReservation": [{"name": flavor, "resources": [{"name": GPU, "total": str(used)}]}]},
    }  # fmt: skip


def said(*objects: Data) -> tuple[str, str]:
    """Of the queue alone: the node has room for all."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"pool": "h100"}},
            "status": {"allocatable": {GPU: "99", "pods": "99"}}}
    data: Data = {"kind": "List", "apiVersion": "v1", "items": [LOCAL, node, *objects], "collected": {"taken": ""}}
    answers = admission(of_list(data), [CARRIER])
    return worst(answers), " ".join(one.says for one in answers)


@pytest.mark.parametrize(("queues", "verdict", "text"), [
    ([queue("own", 32)], "would start now", "has 32 of 32 left"),
    ([queue("own", 32, 8)], "would wait", "has 24 of 32 left"),
    ([queue("own", 16)], "never", "16 at most"),
    ([queue("own", 16, cohort="c"), queue("b", 16, cohort="c")], "would start now", "has 32 of 16 left"),
    ([queue("own", 16, cohort="c"), queue("b", 16, cohort="d")], "would wait", "has 16 of 16 left"),
    ([queue("own", 16, cohort="c"), queue("b", 16, 16, cohort="c")], "would wait", "has 16 of 16 left"),
    ([queue("own", 16, cohort="c"), queue("b", 8, cohort="c")], "cannot be said from here", "of the queues that are here"),
    ([queue("own", 16, cohort="c", borrowing=8), queue("b", 64, cohort="c")], "never", "24 at most"),
    ([queue("own", 16, cohort="c"), queue("b", 64, cohort="c", lending=8)], "cannot be said from here", "24 at most"),
    ([queue("own", 32, cohort="c"), queue("b", 0, 16, cohort="c")], "would wait", "has 16 of 32 left"),
    ([queue("own", 32, cohort="c", lending=0), queue("b", 0, 0, cohort="c")], "would start now", "has 32 of 32 left"),
])  # fmt: skip
def test_what_a_queue_could_give(queues: list[Data], verdict: str, text: str) -> None:
    found = said(*queues)
    assert found[0] == verdict, found
    assert text in found[1]


def flavored(**spec: Any) -> Data:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": spec}


def test_a_flavor_of_other_nodes_gives_nothing() -> None:
    assert said(queue("own", 32), flavored(nodeLabels={"pool": "h100"}))[0] == "would start now"
    assert said(queue("own", 32), flavored(nodeLabels={"pool": "a100"}))[0] == "never"
    assert said(queue("own", 32), flavored(nodeTaints=[{"key": "spot", "effect": "NoSchedule"}]))[0] == "never"


def test_a_quota_that_no_kueue_would_have_is_not_read() -> None:
    assert said(queue("own", 32, borrowing=8))[0] == "cannot be said from here"
