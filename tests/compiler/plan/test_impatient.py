"""Those who evict pods that wait: what a profile states of them, and what they do to a run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import Data, compiled, findings, patched, pod
from tests.compiler.findings.page import overlay
from tests.compiler.manifest.data.prepared import MOUNT, SOURCE
from tests.compiler.targets import on, profile_for

from trainwright.plan.incident import loss_beyond
from trainwright.report.plan import plan_rows
from trainwright.units import Duration

QUEUED: Data = {"queue": "research"}
FETCHES: Data = {"mounts": {"/data": MOUNT}, "prepare": {"/data/digits": SOURCE}}


def kueue(version: str = "0.19.2", **stated: Any) -> Data:
    queues = {"training": {"queues": {"research": {"cluster_queue": "gpus"}}}}
    return {"kueue": {"version": version, "wait_for_pods_ready": stated}, "namespaces": queues}


KAI: Data = {"scheduling": {"staleness_grace": "60s"}}
NAMES_KAI = pod({"schedulerName": "kai-scheduler"})
NAMES_KAI_TOO: Data = {"spec": {"template": {"spec": {"schedulerName": "kai-scheduler"}}}}
IS_KAI: Data = {"scheduling": {"gang": "coscheduling", "version": "0.34", "scheduler_name": "kai-scheduler"}}
EVICTS = "KAI evicts the other pods 1 min after one is lost, where fewer than its gang's minimum are left"
SUSPENDS = "Kueue suspends the whole run where not all pods are ready"
EXCLUSIVE: Data = {"operators": {"jobset": {"exclusive_placement": True}}}


@pytest.mark.parametrize(("run", "profile", "row"), [
    (QUEUED, kueue("0.15.3", timeout="5m"), f"{SUSPENDS} 5 min after it is admitted, and queues it again"),
    (QUEUED, kueue("0.16.0", timeout="5m"),
     f"{SUSPENDS} 5 min after it is admitted; and 5 min after one is lost, and queues it again"),
    (QUEUED, kueue(recovery_timeout="0s"), f"{SUSPENDS} 5 min after it is admitted, and queues it again"),
    (QUEUED, kueue(recovery_timeout="15m", backoff_limit=3),
     f"{SUSPENDS} 5 min after it is admitted; and 15 min after one is lost, and queues it again, 3 times at most"),
    ({}, kueue(), None), (QUEUED, {**kueue(), "kueue": {"version": "0.19.2"}}, None),
    ({}, KAI, EVICTS), (NAMES_KAI, {}, EVICTS), (patched("Job", NAMES_KAI_TOO), {}, EVICTS), ({}, IS_KAI, EVICTS),
    (NAMES_KAI, {"scheduling": {"staleness_grace": "1h"}}, EVICTS.replace("1 min", "1 h")),
    (pod({"schedulerName": "other"}), {}, None),
    (on("pytorch-job"), {"operators": {"training-operator": {"gang_scheduler": "kai-scheduler"}}}, EVICTS),
    (on("indexed-job"), {"operators": {"training-operator": {"version": "1.9", "gang_scheduler": "kai-scheduler"}}}, None),
    ({**pod({"schedulerName": "default-scheduler"}), "gang": False}, IS_KAI, None),
    ({"topology": {"nodes": 1}}, KAI, None),
    (on("job-set"), EXCLUSIVE, "JobSet deletes all other pods where that of node 0 comes back in another place"),
    (on("train-job"), EXCLUSIVE, "JobSet deletes all other pods where that of node 0 comes back in another place"),
    ({}, EXCLUSIVE, None),
])  # fmt: skip
def test_the_plan_says_what_they_do(run: Data, profile: Data, row: str | None) -> None:
    cluster = overlay(profile_for(run.get("target", "indexed-job")), profile)
    assert dict(plan_rows(compiled(run, cluster))).get("when it waits") == row


@pytest.mark.parametrize(("run", "profile", "place", "words"), [
    (QUEUED, kueue(recovery_timeout="3m"), "/kueue/wait_for_pods_ready/recovery_timeout", "lost 6 times comes back after 320 s"),
    (QUEUED, kueue(recovery_timeout="5s"), "/kueue/wait_for_pods_ready/recovery_timeout", "lost 1 time comes back after 10 s"),
    (QUEUED, kueue(recovery_timeout="10m"), None, ""),
    (QUEUED, kueue(timeout="1m"), "/kueue/wait_for_pods_ready/timeout", "lost 4 times comes back after 80 s"),
    (QUEUED, kueue("0.15.3", timeout="1m"), None, ""), (QUEUED, kueue(timeout="1m", recovery_timeout="0s"), None, ""),
    ({**QUEUED, "on_disruption": "fail"}, kueue(recovery_timeout="3m"), None, ""),
    ({}, KAI, "/scheduling/staleness_grace", "lost 4 times comes back after 80 s"),
    (NAMES_KAI, {}, "/scheduling/staleness_grace", "lost 4 times comes back after 80 s"),
    (on("pytorch-job"), KAI, None, ""),
    ({**QUEUED, **FETCHES}, kueue(timeout="11m"), "/kueue/wait_for_pods_ready/timeout", "lets them wait 30 min"),
    ({**QUEUED, **FETCHES, "peer_wait": "4m"}, kueue(timeout="11m"), None, ""), (FETCHES, kueue(timeout="5m"), None, ""),
])  # fmt: skip
def test_what_they_do_before_the_pods_can_be_there(run: Data, profile: Data, place: str | None, words: str) -> None:
    said = [one for one in findings(run, overlay(profile_for(run.get("target", "indexed-job")), profile)) if one.code == "TW468"]
    assert [(one.where.pointer, one.severity.value) for one in said] == ([(place, "warning")] if place else [])
    assert all(words in one.message for one in said)


def test_the_delays_are_those_of_the_job_controller() -> None:
    """10 s, and twice as long after each failure of the same index, up to 600 s."""
    assert [loss_beyond(Duration(seconds)) for seconds in (5, 10, 60, 159, 320, 599, 600)] == [1, 2, 4, 5, 7, 7, None]
