"""What comes back after pods have ended, and when: against what the real controllers did (Kubernetes 1.36, JobSet 0.13-devel).

The expected seconds are those of the formula; measured were 9.4 to 10.1 for 10, 601 for 600.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.pages import ROOT

from trainwright.operators import operator
from trainwright.operators.ending import ContainerEnd, Controller, IndexDone, IndexFailed, JobEnd, PodEnd, Replace, Restart
from trainwright.operators.job.ended import JobStatus
from trainwright.operators.jobset.ended import JobSetStatus
from trainwright.operators.operator import Around, makes_pods

Data = dict[str, Any]
EVICTED = frozenset({("DisruptionTarget", "True")})
IGNORED: Data = {"podFailurePolicy": {"rules": [
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [11, 12]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [202, 210]}},
]}}  # fmt: skip
FAILS: Data = {"podFailurePolicy": {"rules": [
    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
]}}  # fmt: skip
FOR_THE_JOB: Data = {"backoffLimit": 0}
PER_INDEX: Data = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
PERMANENT: Data = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
DISRUPTED: Data = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}


def spec(pods: int, limit: Data, policy: Data) -> Data:
    template = {"spec": {"containers": [{"name": "trainer", "image": "a"}]}}
    return {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template, **limit, **policy}


def job(pods: int, limit: Data) -> JobStatus:
    return JobStatus({"metadata": {"name": "a", "namespace": "b"}, "spec": spec(pods, limit, IGNORED)})


def job_set(pods: int, limit: Data, policy: Data = IGNORED, rule: Data = PERMANENT, restarts: int = 3) -> JobSetStatus:
    return JobSetStatus({"metadata": {"name": "a", "namespace": "b"}, "spec": {
        "failurePolicy": {"maxRestarts": restarts, "rules": [rule]},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": spec(pods, limit, policy)}}],
    }})  # fmt: skip


def ended(index: int, code: int) -> PodEnd:
    conditions = EVICTED if code == 143 else frozenset()
    return PodEnd(f"a-node-0-{index}", "b", index, (ContainerEnd("trainer", code),), conditions, owner="a-node-0")


def test_a_pod_of_an_indexed_job_comes_back_later_each_time() -> None:
    status = job(4, {"backoffLimitPerIndex": 3})
    assert [seconds(status.record(ended(2, code))) for code in (210, 210, 143, 210)] == [10, 20, 40, 80]


@pytest.mark.parametrize(("pods", "incidents", "limit", "expected"), [
    (2, 1, FOR_THE_JOB, [20]),
    (4, 1, FOR_THE_JOB, [80]),
    (8, 1, FOR_THE_JOB, [600]),
    (2, 3, FOR_THE_JOB, [20, 80, 320]),
    (8, 2, PER_INDEX, [10, 20]),
])  # fmt: skip
def test_all_pods_of_a_job_set_leave(pods: int, incidents: int, limit: Data, expected: list[int]) -> None:
    status = job_set(pods, limit)
    waits = [[seconds(status.record(ended(index, 202))) for index in range(pods)] for _ in range(incidents)]
    assert [incident[-1] for incident in waits] == expected


def test_one_pod_of_a_job_set_is_evicted_three_times() -> None:
    status = job_set(4, PER_INDEX)
    assert [seconds(status.record(ended(1, 143))) for _ in range(3)] == [10, 20, 40]


@pytest.mark.parametrize("limit", [FOR_THE_JOB, PER_INDEX], ids=["for the job", "per index"])
def test_a_crash_starts_the_set_again_until_its_restarts_are_used_up(limit: Data) -> None:
    status = job_set(4, limit, restarts=1)
    assert status.record(ended(0, 200)) == Restart(counted=True, restarts=1, seconds=2)
    last = status.record(ended(3, 200))
    assert isinstance(last, JobEnd)
    assert (last.type, last.reason) == ("Failed", "ReachedMaxRestarts")


def test_a_permanent_code_ends_the_set_after_its_peers_have_left_too() -> None:
    status = job_set(4, PER_INDEX)
    assert isinstance(status.record(ended(0, 202)), Replace)
    end = status.record(ended(1, 11))
    assert isinstance(end, JobEnd)
    assert (end.type, end.reason) == ("Failed", "FailJobSetFailurePolicyAction")


def test_a_set_that_fails_its_job_on_evictions_starts_again_at_no_cost() -> None:
    status = job_set(4, FOR_THE_JOB, FAILS, DISRUPTED, restarts=0)
    assert [status.record(ended(1, 143)) for _ in range(3)] == [Restart(counted=False, restarts=0, seconds=2)] * 3


def test_a_set_is_complete_when_its_jobs_are() -> None:
    status = job_set(2, PER_INDEX)
    assert not isinstance(status.record(ended(0, 0)), JobEnd)
    end = status.record(ended(1, 0))
    assert isinstance(end, JobEnd)
    assert end.type == "Completed"


def seconds(decision: object) -> int:
    assert isinstance(decision, Replace)
    return decision.seconds


RUNS = ROOT / "dist"
TRAINING = "kubeflow-a100/training/runs"


def controller(path: str, *edits: tuple[str, object]) -> tuple[Controller, Data]:
    """Of a run in dist/, with values at dotted paths of the object that carries it."""
    documents = list(yaml.safe_load_all((RUNS / f"{path}.k8s.yaml").read_text(encoding="utf-8")))
    [workload] = [one for one in documents if makes_pods(one)]
    for where, value in edits:
        *parents, key = where.split(".")
        place = workload
        for parent in parents:
            place = place[int(parent)] if parent.isdecimal() else place[parent]
        place[key] = value
    found = operator.ended(workload, Around(documents))
    assert found is not None
    return found, workload


def of_role(role: str, index: int, code: int, container: str = "trainer", **more: Any) -> PodEnd:
    return PodEnd(f"{role}-{index}", "training", index, (ContainerEnd(container, code),), role=role, **more)


@pytest.mark.parametrize(("code", "expected"), [(200, Replace), (202, Replace), (137, Replace), (11, JobEnd), (1, JobEnd)])
def test_an_exit_code_of_the_training_operator_brings_back_that_pod_or_ends_the_run(code: int, expected: type) -> None:
    status, _ = controller(f"{TRAINING}/resnet50-imagenet")
    found = status.record(of_role("worker", 0, code, "pytorch"))
    assert type(found) is expected
    assert not isinstance(found, Replace) or found.seconds == 0


def test_a_sidecar_s_code_is_not_the_one_that_the_training_operator_reads() -> None:
    status, _ = controller(f"{TRAINING}/resnet50-imagenet")
    assert isinstance(status.record(of_role("worker", 0, 200, "logs")), JobEnd)


@pytest.mark.parametrize(("path", "role", "index", "ends"), [
    ("resnet50-imagenet", "worker", 0, False), ("resnet50-imagenet", "master", 0, True), ("bert-finetune", "worker", 1, True),
    ("resnet-train", "worker", 0, False), ("resnet-train", "chief", 0, True), ("xgboost-dist", "master", 0, True),
])  # fmt: skip
def test_whose_success_ends_a_run_of_the_training_operator(path: str, role: str, index: int, ends: bool) -> None:
    status, _ = controller(f"{TRAINING}/{path}")
    assert isinstance(status.record(of_role(role, index, 0)), JobEnd) is ends


def test_the_training_operator_adds_up_restarts_of_containers() -> None:
    status, job = controller(f"{TRAINING}/resnet50-imagenet", ("spec.pytorchReplicaSpecs.Worker.restartPolicy", "OnFailure"))
    limit = job["spec"]["runPolicy"]["backoffLimit"]
    assert status.restarted(limit - 1) is None
    assert status.restarted(limit) is not None
    supervised, _ = controller(f"{TRAINING}/resnet50-imagenet")
    assert supervised.restarted(limit) is None


def test_an_mpi_job_ends_with_its_launcher_which_comes_back_as_a_job_s_pod_does() -> None:
    status, _ = controller(f"{TRAINING}/nccl-training")
    assert [seconds(status.record(of_role("launcher", 0, 1))) for _ in range(3)] == [10, 20, 40]
    assert isinstance(status.record(of_role("worker", 1, 255)), IndexFailed)
    assert isinstance(last := status.record(of_role("launcher", 0, 0)), JobEnd)
    assert (last.type, last.reason) == ("Complete", "CompletionsReached")


def test_an_evicted_worker_ends_an_mpi_job() -> None:
    status, _ = controller(f"{TRAINING}/nccl-training")
    found = status.record(of_role("worker", 1, 143, conditions=EVICTED))
    assert isinstance(found, JobEnd)
    assert found.failed


def test_the_policies_of_a_volcano_job() -> None:
    """Measured: 1 s, and ``maxRetry`` 4 is four attempts."""
    status, _ = controller(f"{TRAINING}/volcano-lm")
    assert isinstance(status.record(of_role("node", 0, 11)), JobEnd)
    status, _ = controller(f"{TRAINING}/volcano-lm")
    assert [status.record(of_role("node", 0, code)) for code in (200, 137, 200)] == [Restart(True, n, 1) for n in (1, 2, 3)]
    last = status.record(of_role("node", 0, 200))
    assert isinstance(last, JobEnd)
    assert last.failed


def test_a_volcano_job_is_done_when_enough_pods_are() -> None:
    status, _ = controller(f"{TRAINING}/volcano-lm")
    *first, last = [status.record(of_role("node", index, 0)) for index in range(4)]
    assert [type(one) for one in first] == [IndexDone] * 3
    assert last == JobEnd("Complete", "Completed", last.message if isinstance(last, JobEnd) else "")


@pytest.mark.parametrize(("policy", "expected"), [
    ({"action": "CompleteJob", "event": "TaskCompleted"}, JobEnd), ({"action": "RestartTask", "event": "PodFailed"}, IndexDone),
])  # fmt: skip
def test_a_policy_of_a_task_comes_before_those_of_the_job(policy: Data, expected: type) -> None:
    status, _ = controller(f"{TRAINING}/volcano-lm", ("spec.tasks.0.policies", [policy]), ("spec.minSuccess", 9))
    assert [type(status.record(of_role("node", index, 0))) for index in range(3)] == [IndexDone] * 3
    if policy["action"] == "RestartTask":
        assert status.record(of_role("node", 3, 1)) == Restart(True, 1, 1, "node")
    else:
        assert type(status.record(of_role("node", 3, 0))) is expected


def test_a_train_job_ends_as_its_job_set_does() -> None:
    foundation = RUNS / "trainer-h100/research/foundation/research.k8s.yaml"
    runtimes = list(yaml.safe_load_all(foundation.read_text(encoding="utf-8")))
    documents = yaml.safe_load_all((RUNS / "trainer-h100/research/runs/sdk-train.k8s.yaml").read_text(encoding="utf-8"))
    [job] = [one for one in documents if makes_pods(one)]
    status = operator.ended(job, Around(runtimes))
    assert status is not None
    owner = f"{job['metadata']['name']}-node-0"
    evicted = [status.record(of_role("node", 1, 143, "node", owner=owner, conditions=EVICTED)) for _ in range(2)]
    assert [seconds(one) for one in evicted] == [10, 20]
    assert isinstance(status.record(of_role("node", 0, 11, "node", owner=owner)), JobEnd)


RAY_TRAIN = "ray-l40s/ray/runs/ray-train"
JOB_FAILED = "Job entrypoint command failed with exit code 1, last available logs: out of memory"


def said_by_ray(status: Controller, answer: str, code: int = 0) -> object:
    end = of_role("submitter", 0, code, "ray-job-submitter")
    question = status.asks(end)
    assert question is not None
    assert (question.role, question.port) == ("head", 8265)
    assert question.path.startswith("/api/jobs/ray-train-")
    status.heard(answer)
    return status.record(end)


def about(state: str, message: str = "") -> str:
    return json.dumps({"status": state, "message": message, "submission_id": "a"})


@pytest.mark.parametrize(("answer", "expected"), [
    (about("SUCCEEDED", "Job finished successfully."), JobEnd("Complete", "SUCCEEDED", "Job finished successfully.")),
    (about("STOPPED"), JobEnd("Failed", "STOPPED", "")),
    (about("FAILED", JOB_FAILED), JobEnd("Failed", "AppFailed", JOB_FAILED)),
    ("Job a does not exist", JobEnd("Failed", "AppFailed", "Submitter completed but Ray job not found in RayCluster.")),
    (about("RUNNING"), JobEnd("Failed", "JobDeploymentStatusTransitionGracePeriodExceeded",
                              "The RayJob submitter finished but the ray job did not reach terminal state within 30s")),
])  # fmt: skip
def test_whether_a_ray_job_has_succeeded_is_ray_s_word(answer: str, expected: JobEnd) -> None:
    """Its submitter ends with 0 in all of these: it has followed the log to its end."""
    status, _ = controller(RAY_TRAIN, ("spec.backoffLimit", 0))
    assert said_by_ray(status, answer) == expected


def test_a_ray_job_that_failed_gets_a_new_cluster_as_often_as_it_says() -> None:
    status, job = controller(RAY_TRAIN)
    limit = job["spec"]["backoffLimit"]
    failed = [said_by_ray(status, about("FAILED", JOB_FAILED)) for _ in range(limit + 1)]
    assert failed == [*(Restart(True, number + 1, 3) for number in range(limit)), JobEnd("Failed", "AppFailed", JOB_FAILED)]


def test_a_submitter_that_fails_comes_back_as_a_job_s_pod_does_before_the_cluster_goes() -> None:
    status, _ = controller(RAY_TRAIN, ("spec.submitterConfig.backoffLimit", 1), ("spec.backoffLimit", 0))
    assert seconds(said_by_ray(status, "", code=1)) == 10
    last = said_by_ray(status, "", code=1)
    assert isinstance(last, JobEnd)
    assert (last.reason, "BackoffLimitExceeded" in last.message) == ("SubmissionFailed", True)


def test_head_and_workers_of_a_ray_job_are_made_again_whatever_they_ended_with() -> None:
    status, _ = controller(RAY_TRAIN)
    for role, code in (("head", 137), ("worker", 1), ("worker", 0)):
        end = of_role(role, 0, code, f"ray-{role}")
        assert status.asks(end) is None
        assert seconds(status.record(end)) == 0


def test_no_pod_ends_what_has_no_submitter() -> None:
    documents = list(yaml.safe_load_all((RUNS / f"{RAY_TRAIN}.k8s.yaml").read_text(encoding="utf-8")))
    [job] = [one for one in documents if makes_pods(one)]
    cluster = {**job, "kind": "RayCluster", "spec": job["spec"]["rayClusterSpec"]}
    by_operator = {**job, "spec": {**job["spec"], "submissionMode": "HTTPMode"}}
    assert [operator.ended(one, Around(documents)) for one in (cluster, by_operator)] == [None, None]
