"""Volcano Job: what its controller is told, and what becomes of a pod that fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import EVERY_TARGET, codes, command, compiled, findings, script
from tests.compiler.objects import Data, lines_without_answer, top
from tests.compiler.targets import CLUSTER, on, profile_for

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Elastic, Needs, Refusal, Rendezvous, RestartUnit, Success
from trainwright.target.volcano_job import VolcanoJob
from trainwright_trainer.contract.exit_codes import EXIT_CODES, Disposition

NEEDS = Needs(
    nodes=4,
    processes_per_node=8,
    gpus_per_node=8,
    rendezvous=Rendezvous.STATIC,
    success=Success.ALL_RANKS,
    restart=RestartUnit.ALL_RANKS,
)
PROFILE = profile_for("volcano-job")


def spec(run: Data | None = None, cluster: Data | None = None) -> Data:
    """Of the Job that a run becomes."""
    found: Data = top(compiled(on("volcano-job", **(run or {})), PROFILE | (cluster or {})))["spec"]
    return found


def action(policies: list[Data], code: int, event: str = "PodFailed") -> str:
    """The first match wins (pkg/controllers/job/job_controller_util.go, applyPolicies); nothing happens without one."""
    for policy in policies:
        if event in policy.get("events", ()) or policy.get("exitCode") == code:
            return str(policy["action"])
    return "SyncJob"


@pytest.mark.parametrize(
    "rendezvous", [kind for kind in Rendezvous if kind not in (Rendezvous.STATIC, Rendezvous.C10D, Rendezvous.NONE)]
)
def test_it_makes_no_other_rendezvous(rendezvous: Rendezvous) -> None:
    refusal = VolcanoJob().bind(NEEDS._replace(rendezvous=rendezvous), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason


def test_it_has_a_fixed_number_of_nodes() -> None:
    assert isinstance(VolcanoJob().bind(NEEDS._replace(elastic=Elastic(2, 8)), EVERY_TARGET), Refusal)


@pytest.mark.parametrize("scheduling", [{}, {"gang": "coscheduling", "version": "0.33"}])
def test_a_cluster_without_volcano_is_refused_and_not_left_without_a_gang(scheduling: Data) -> None:
    cluster = EVERY_TARGET.model_copy(update={"scheduling": Cluster.model_validate(_with(scheduling)).scheduling})
    assert isinstance(VolcanoJob().bind(NEEDS, cluster), Refusal)
    assert isinstance(VolcanoJob().bind(NEEDS, EVERY_TARGET), Binding)
    (found,) = findings(on("volcano-job"), CLUSTER | {"scheduling": scheduling})
    assert found.code == "TW401"
    assert "scheduling: {gang: volcano" in found.fix


def _with(scheduling: Data) -> Data:
    return {**EVERY_TARGET.model_dump(mode="json", exclude_none=True), "scheduling": scheduling}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_a_permanent_code_ends_the_job_and_any_other_starts_all_pods_again(code: int) -> None:
    policies, disposition = spec()["policies"], EXIT_CODES[code].disposition  # type: ignore[index]
    if disposition is not Disposition.DONE:
        assert action(policies, code) == ("TerminateJob" if disposition is Disposition.PERMANENT else "RestartJob")
    assert action(policies, 0, "PodEvicted") == "RestartJob"
    assert action(policies, 137) == "RestartJob"


def test_the_codes_of_an_opaque_command_mean_nothing() -> None:
    run = command("torchrun", "train.py")
    assert spec(run)["policies"] == [{"action": "RestartJob", "events": ["PodFailed", "PodEvicted"]}]
    assert action(spec(script("train.py"))["policies"], 10) == "TerminateJob"


@pytest.mark.parametrize("restarts", [0, 3])
def test_volcano_counts_the_restart_that_it_does_not_make(restarts: int) -> None:
    """It compares retryCount, raised by each restart, with maxRetry, and takes 0 for 3 (mutate_job.go, state/restarting.go)."""
    assert spec({"restarts": restarts})["maxRetry"] == restarts + 1


def test_defaults_of_the_webhook_are_written_out() -> None:
    """What it would write is a difference that Argo CD sees (pkg/webhooks/admission/jobs/mutate/mutate_job.go)."""
    job = spec()
    assert {"queue", "schedulerName", "maxRetry", "minAvailable"} <= job.keys()
    assert all({"name", "minAvailable", "maxRetry"} <= task.keys() for task in job["tasks"])


@pytest.mark.parametrize(("gang", "minimum"), [(True, 2), (False, 1)])
def test_without_a_gang_pods_may_start_one_by_one_and_all_must_succeed(gang: bool, minimum: int) -> None:
    job = spec({"gang": gang})
    assert (job["minAvailable"], job["minSuccess"], job["tasks"][0]["replicas"]) == (minimum, 2, 2)


def test_queue_and_priority_are_those_of_the_group() -> None:
    job = spec({"queue": "gold", "priority": "high"}, {"scheduling": {**PROFILE["scheduling"], "scheduler_name": "gangs"}})
    assert (job["queue"], job["priorityClassName"], job["schedulerName"]) == ("gold", "high", "gangs")
    pod = job["tasks"][0]["template"]["spec"]
    assert (pod["schedulerName"], pod["priorityClassName"]) == ("gangs", "high")
    assert spec()["queue"] == "default"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"maxRetry": 9}, ["TW601"]),
        ({"policies": []}, ["TW601"]),
        ({"plugins": {"ssh": []}}, ["TW601"]),
        ({"minAvailable": 1}, ["TW601"]),
        ({"ttlSecondsAfterFinished": 60}, ["TW601"]),
        ({"tasks": [{"name": "node", "replicas": 1}]}, ["TW601"]),
        ({"tasks": [{"name": "other", "replicas": 1}]}, ["TW601"]),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, []),
    ],
)
def test_an_override_reaches_what_the_plan_does_not_own(patch: Data, expected: list[str]) -> None:
    objects: list[Any] = [{"target": "volcano-job", "kind": "Job", "patch": {"spec": patch}}]
    assert sorted({*codes(on("volcano-job", overrides={"objects": objects}), PROFILE)}) == expected


@pytest.mark.parametrize("run", [{}, {"gang": False}, {"queue": "gold", "priority": "high"}, command("torchrun", "train.py")])
def test_every_line_has_an_answer(run: Data) -> None:
    assert lines_without_answer(compiled(on("volcano-job", **run), PROFILE)) == []
