"""Quotas of queues: runs that can never be admitted, and what the plan says of the others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import Data, compiled, findings
from tests.compiler.findings.page import overlay
from tests.compiler.targets import on, profile_for

from trainwright.cluster import Cluster
from trainwright.findings import CompileError
from trainwright.reading import validate_data
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_lines, plan_rows

GPU = "nvidia.com/gpu"


def kueue(flavors: Data, cohort: str | None = None, **others: Data) -> Data:
    queues = {"gpus": {"cohort": cohort, "flavors": flavors}, **others}
    return {
        "kueue": {"version": "0.19.2", "cluster_queues": queues},
        "namespaces": {"training": {"queues": {"research": {"cluster_queue": "gpus"}, "free": {"cluster_queue": "unknown"}}}},
    }


def flavor(resource: str = GPU, pools: tuple[str, ...] = (), **quota: Any) -> Data:
    return {"node_pools": list(pools), "resources": {resource: quota}}


RUN: Data = {"queue": "research", "topology": {"nodes": 4, "gpus_per_node": 8}}
OTHERS = {"cohort": "all", "flavors": {"a": flavor(nominal=16, lending_limit=8)}}


@pytest.mark.parametrize(("profile", "said"), [
    (kueue({"a": flavor(nominal=32)}), None),
    (kueue({"a": flavor(nominal=31)}), ("error", "role node asks for 32 nvidia.com/gpu, and its queue gives 31 at most")),
    (kueue({"a": flavor(nominal=16, borrowing_limit=16)}, "all"), None),
    (kueue({"a": flavor(nominal=16, borrowing_limit=15)}, "all"), ("error", "gives 31 at most")),
    (kueue({"a": flavor(nominal=24)}, "all", more=OTHERS), None),
    (kueue({"a": flavor(nominal=23)}, "all", more=OTHERS), ("warning", "has 31 with all that the profile's queues")),
    (kueue({"a": flavor(nominal=16), "b": flavor(nominal=16)}), ("error", "gives 16 at most")),
    (kueue({"a": flavor(nominal=64, pools=("cpu",))}), ("error", "in pool h100, and no flavor of its queue has nodes of that")),
    (kueue({"a": flavor(nominal=64, pools=("cpu", "h100"))}), None),
    (kueue({"a": flavor("cpu", nominal=600)}), ("error", "role node asks for 688 cpu")),
    (kueue({"a": flavor("cpu", nominal="688000m")}), None),
    (kueue({"a": flavor("memory", nominal="1Ti")}), ("error", "memory, and its queue gives")),
    (kueue({"a": flavor("pods", nominal=3)}), ("error", "asks for 4 pods")),
    (kueue({"a": flavor("example.com/other", nominal=0)}), None),
    (overlay(kueue({"a": flavor(nominal=0)}), {"namespaces": {"training": {"queues": {"research": {"cluster_queue": "b"}}}}}),
     None),
    ({"scheduling": {"gang": "volcano", "version": "1.15", "capability": {"research": {GPU: 31}}}}, ("error", "31 at most")),
    ({"scheduling": {"gang": "volcano", "version": "1.15", "capability": {"research": {GPU: 32}}}}, None),
])  # fmt: skip
def test_a_run_that_its_queue_can_never_admit(profile: Data, said: tuple[str, str] | None) -> None:
    found = [one for one in findings(RUN, profile) if one.code == "TW467"]
    assert [(one.severity.value, said[1] in one.message, one.where.pointer) for one in found if said] == (
        [(said[0], True, "/queue")] if said else [])
    assert len(found) == (said is not None)


def test_roles_share_a_flavor() -> None:
    """Each fits alone, and both together do not."""
    reader = {"readers": {"pods": 2, "command": ["read"], "resources": {"cpu": 100}, "node_pool": "h100"}}
    run = on("job-set", roles=reader, queue="research", gang=False, topology={"kind": "ddp", "nodes": 1, "gpus_per_node": 8})
    for nominal, refused in ((371, True), (372, False)):
        profile = overlay(profile_for("job-set"), kueue({"a": flavor("cpu", nominal=nominal)}))
        assert ("TW467" in [one.code for one in findings(run, profile)]) == refused


def test_an_elastic_gang_of_volcano_begins_small() -> None:
    elastic = {"target": "pytorch-job", "topology": {"nodes": 4, "gpus_per_node": 8, "elastic": {"min_nodes": 2, "max_nodes": 4}}}
    scheduling = {"gang": "volcano", "version": "1.15", "capability": {"research": {GPU: 16}}}
    operators = {"operators": {"training-operator": {"version": "1.9.4", "gang_scheduler": "volcano"}}}
    assert "TW467" not in [one.code for one in findings({**RUN, **elastic}, {"scheduling": scheduling, **operators})]


def test_the_plan_says_what_the_queue_is_asked_for() -> None:
    profile = kueue({"a": flavor(nominal=32, borrowing_limit=8), "b": flavor("memory", nominal="8Ti")}, "all")
    result = compiled(RUN, profile)
    assert dict(plan_rows(result))["quota"] == (
        "32 of 32 nvidia.com/gpu (40 with what it may borrow), 7200Gi of 8Ti memory (more where others lend it)")
    stated = plan_facts(result)
    asks = {key: stated[key] for key in stated if key.startswith("asks.")}
    assert asks == {"asks.nvidia.com/gpu": "32", "asks.memory": "7200Gi"}
    other = {**stated, "namespace": "training"}
    without = {key: stated[key] for key in stated if key != "queue"}
    elsewhere = [{**stated, "queue": "free"}, {**stated, "cluster": "other"}, without]
    (row,) = [line for line in plan_lines(result, others=[other, *elsewhere]) if "active runs" in line]
    assert row.split(maxsplit=1)[1] == (
        "64 of 32 nvidia.com/gpu (40 with what it may borrow), 14400Gi of 8Ti memory (more where others lend it) "
        "for 2 active runs, so some wait for others")
    assert not [line for line in plan_lines(result, others=elsewhere) if "active run" in line], "it is alone in its queue"
    assert "asks" not in str(plan_facts(compiled({**RUN, "queue": "free"}, profile))), "of that queue the profile states nothing"


@pytest.mark.parametrize(("flavors", "words"), [
    ({"a": flavor(nominal="many")}, "64 or 500m or 256Gi, not many"),
    ({"a": flavor(nominal=-1)}, "64 or 500m or 256Gi, not -1"),
    ({"a": flavor(nominal=1, borrowing_limit=1)}, "a queue without a cohort has no borrowing_limit"),
])  # fmt: skip
def test_quotas_that_no_queue_has(flavors: Data, words: str) -> None:
    from tests.compiler.example import CLUSTER

    with pytest.raises(CompileError, match=words):
        validate_data(Cluster, overlay(CLUSTER, kueue(flavors)), "lab.yaml", {})
