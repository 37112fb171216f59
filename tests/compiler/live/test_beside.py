"""What stands beside a cause and is none: warnings that are over, other flavors, digits in a digest, kinds not asked for."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import pytest
from tests.compiler.projects import ROOT
from tests.pages import DOCS

from trainwright.live.diagnose import Diagnosis, diagnose
from trainwright.live.runs import case_for, expected, written_for
from trainwright.live.snapshot import of_list
from trainwright.project.load import Project
from trainwright.project.status import last_records

Data = dict[str, Any]

PROJECT = Project(ROOT)
[RUN] = [one for one in expected(last_records(PROJECT).runs) if one.run == "llama-1b-ddp"]
LIST = json.loads((DOCS / "examples" / "snapshots" / "waiting.json").read_text())
JOB, NODES = LIST["items"][0], [one for one in LIST["items"] if one["kind"] == "Node"]
PODS = [one for one in LIST["items"] if one["kind"] == "Pod"]
IMAGE = PODS[0]["spec"]["containers"][0]["image"]
CODE = {"exitCode": 1, "reason": "Error", "message": "ValueError: x", "finishedAt": "2026-11-20T09:03:30Z"}


def pods(state: Data | None = None, phase: str = "Pending") -> list[Data]:
    """All of them with a node, their containers in a state."""
    found = copy.deepcopy(PODS)
    for pod in found:
        pod["spec"]["nodeName"] = "gpu-0"
        waits = [{"name": "trainer", "state": state or {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}]
        pod["status"] = {"phase": phase, "containerStatuses": waits}
    return found


def event(about: Data, reason: str, message: str, minute: int, kind: str = "Warning") -> Data:
    named = {"kind": about["kind"], "namespace": "training", "name": about["metadata"]["name"]}
    metadata = {"name": f"{named['name']}.{reason}.{minute}", "namespace": "training"}
    at = f"2026-11-20T09:0{minute}:00Z"
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": named, "reason": reason, "message": message,
        "type": kind, "lastTimestamp": at,
    }  # fmt: skip


def said(items: Iterable[Data], job: Data | None = JOB, **collected: Any) -> Diagnosis:
    there = [*([job] if job else []), *items]
    data = {"apiVersion": "v1", "kind": "List", "items": there, **({"collected": collected} if collected else {})}
    return diagnose(case_for(of_list(data), RUN), written_for(PROJECT, RUN), RUN.record.facts)


def starting(*events: Data) -> Diagnosis:
    return said([*pods(), *NODES, *events], taken="2026-11-20T09:05:00Z")


@pytest.mark.parametrize(("reason", "cause"), [
    ("FailedMount", "mount-fails"), ("FailedAttachVolume", "mount-fails"), ("FailedCreatePodSandBox", "sandbox"),
])  # fmt: skip
def test_a_warning_is_over_once_the_image_is_pulled(reason: str, cause: str) -> None:
    warning = event(PODS[0], reason, "timed out waiting for the condition", 2)
    assert starting(warning).cause == cause
    assert starting(warning, event(PODS[0], "Pulling", "", 1, "Normal")).cause == cause
    over = starting(warning, event(PODS[0], "Pulling", "Pulling image", 3, "Normal"))
    assert (over.cause, over.fine) == ("starting", True)


@pytest.mark.parametrize("reason", ["FailedScheduling", "DNSConfigForming"])
def test_what_a_pod_starts_with_all_the_same_is_nothing_wrong(reason: str) -> None:
    pulls = event(PODS[0], "Pulling", "Pulling image", 1, "Normal")
    assert starting(pulls, event(PODS[0], reason, "0/4 nodes are available: 4 Insufficient cpu.", 2)).fine


def test_without_events_nothing_is_said_to_be_well() -> None:
    assert not starting().known


QUOTA = 'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4'


def test_a_refusal_before_the_pods_were_made_ended_none_of_them() -> None:
    ended = [*pods({"terminated": CODE}, "Failed"), *NODES]
    before, after = (event(JOB, "FailedCreate", f"Error creating: {QUOTA}", minute) for minute in (2, 4))
    taken = "2026-11-20T09:05:00Z"
    assert said([*ended, before], taken=taken).cause == "program-says"
    assert said([*ended, after], taken=taken).cause == "quota"
    assert said([*pods({"terminated": CODE}, "Failed")[:3], *NODES, before], taken=taken).cause == "quota"


def test_what_pods_wait_for_now_comes_before_what_took_them_away() -> None:
    gone = copy.deepcopy(PODS[0]) | {"metadata": {**PODS[0]["metadata"], "name": "llama-1b-ddp-6mfnvhz0-0-aaaaa"}}
    preempted = event(gone, "Preempted", "Preempted by pod u-9 on node gpu-0", 1, "Normal")
    assert starting(preempted).cause == "preempted"
    assert starting(preempted, event(PODS[0], "FailedMount", "mount failed: exit status 32", 3)).cause == "mount-fails"


@pytest.mark.parametrize(("answer", "cause"), [
    (f"{IMAGE}@sha256:a4034290011f: not found", "image-not-found"), ("429 Too Many Requests", "image-rate-limit"),
    ("unexpected status from GET request: 403 Forbidden", "image-credentials"),
    ('choosing image instance: no image found in image index for architecture "arm64", variant "v8", OS "linux"',
     "image-platform"),
    ("unexpected commit digest sha256:4290, expected sha256:4010: failed precondition", "image-pull-fails"),
    ("", "image-unknown"),
])  # fmt: skip
def test_what_a_registry_answers_is_read_and_not_the_digits_of_a_digest(answer: str, cause: str) -> None:
    message = f'Back-off pulling image "{IMAGE}"' + (f": ErrImagePull: {answer}" if answer else "")
    waits = pods({"waiting": {"reason": "ImagePullBackOff", "message": message}})
    assert said([*waits, *NODES], taken="2026-11-20T09:05:00Z").cause == cause


@pytest.mark.parametrize(("parts", "cause"), [
    (["untolerated taint {a true NoSchedule <nil>} in flavor spot"], "kueue-flavor-taint"),
    (["untolerated taint {a true NoSchedule <nil>} in flavor spot",
      "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"], "kueue-waits-for-quota"),
    (["flavor a100 doesn't match node affinity", "insufficient unused quota for cpu in flavor h100, 8 more needed"],
     "kueue-waits-for-quota"),
    (["flavor a100 doesn't match node affinity"], "kueue-flavor-labels"),
    (["insufficient quota for cpu in flavor h100, request > maximum capacity (32 > 16)"], "kueue-never-fits-alone"),
    (["untolerated taint {a true NoSchedule <nil>} in flavor spot",
      "insufficient quota for cpu in flavor h100, request > maximum capacity (32 > 16)"], "kueue-not-admitted"),
    (['Flavor "h100" does not support TopologyAwareScheduling'], "kueue-flavor-without-topology"),
    (['Flavor "h100" does not contain the requested level'], "kueue-flavor-without-level"),
    (['Flavor "spot" does not contain the requested level',
      'topology "default" allows to fit only 1 out of 2 pod(s)'], "kueue-no-topology"),
    (['Flavor "h100" supports only TopologyAwareScheduling'], "kueue-flavor-wants-topology"),
    (['Flavor "spot" does not support TopologyAwareScheduling',
      "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"], "kueue-waits-for-quota"),
    (['Flavor "spot" does not support TopologyAwareScheduling',
      "insufficient quota for cpu in flavor h100, request > maximum capacity (32 > 16)"], "kueue-not-admitted"),
])  # fmt: skip
def test_one_flavor_of_a_queue_that_does_not_fit_is_no_cause_where_another_does(parts: list[str], cause: str) -> None:
    message = f"couldn't assign flavors to pod set main: {', '.join(parts)}"
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    assert said([workload([condition])], queued(), taken="2026-11-20T09:05:00Z").cause == cause


def queued() -> Data:
    labels = {**JOB["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "team"}
    return {**JOB, "metadata": {**JOB["metadata"], "labels": labels}, "spec": {**JOB["spec"], "suspend": True}}


def workload(conditions: list[Data]) -> Data:
    owner = {"kind": "Job", "name": JOB["metadata"]["name"], "uid": JOB["metadata"]["uid"], "controller": True}
    metadata = {"name": "job-x", "namespace": "training", "ownerReferences": [owner]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": {"queueName": "team"},
        "status": {"conditions": conditions},
    }  # fmt: skip


def test_no_workload_is_told_apart_from_one_that_says_nothing_and_from_none_asked_for() -> None:
    assert said([], queued(), taken="2026-11-20T09:05:00Z").cause == "kueue-nobody-admits"
    assert said([workload([])], queued(), taken="2026-11-20T09:05:00Z").cause == "kueue-not-looked-at"
    assert said([], queued()).cause == "kueue-not-looked-at"


def test_a_plain_list_is_not_said_to_lack_what_it_was_not_asked_for() -> None:
    assert said(pods(), None).cause == "not-asked"
    assert said(pods(), None, taken="2026-11-20T09:05:00Z").cause == "not-applied"
    assert said([], JOB | {"status": {}}).cause == "no-controller-or-expired"
    unscheduled = said(PODS)
    assert unscheduled.cause == "no-node-unseen"
    assert "Insufficient" in unscheduled.says


@pytest.mark.parametrize(("taint", "cause"), [
    ("node.kubernetes.io/disk-pressure", "taint"), ("node.kubernetes.io/not-ready", "nodes-not-ready"),
    ("node.kubernetes.io/unschedulable", "nodes-not-ready"), ("example.com/maintenance", "taint"),
])  # fmt: skip
def test_pressure_on_a_node_is_a_taint_and_not_a_node_that_is_not_ready(taint: str, cause: str) -> None:
    nodes = [node | {"spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]}} for node in NODES]
    found = said([*PODS, *nodes], taken="2026-11-20T09:05:00Z")
    assert found.cause == cause
    assert (taint in found.says) == (cause == "taint")


def test_what_makes_pods_is_quoted_where_its_failure_is_of_no_known_kind() -> None:
    late = event(JOB, "FailedCreate", "Error creating: etcdserver: request timed out", 4)
    found = said([late], taken="2026-11-20T09:05:00Z")
    assert (found.cause, "etcdserver" in found.says) == ("not-created", True)


def test_a_node_whose_network_is_not_ready_starts_no_pod() -> None:
    assert starting(event(PODS[0], "NetworkNotReady", "network is not ready: cni plugin not initialized", 2)).cause == "sandbox"


@pytest.mark.parametrize(("state", "phase", "cause"), [
    ({"running": {}}, "Running", "data-is-fetched"), ({"waiting": {"reason": "ContainerCreating"}}, "Pending", "data-is-fetched"),
    ({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "store" not found'}}, "Pending",
     "data-fetch-cannot-start"),
])  # fmt: skip
def test_a_fetch_that_cannot_start_is_not_under_way(state: Data, phase: str, cause: str) -> None:
    waiting = pods()
    for pod in waiting:
        pod["status"]["initContainerStatuses"] = [{"name": "await-data", "state": {"running": {}}}]
    labels = {"app.kubernetes.io/managed-by": "trainwright", "app.kubernetes.io/component": "foundation"}
    fetch = {
        "apiVersion": "batch/v1", "kind": "Job", "spec": {},
        "metadata": {"name": "data-x", "namespace": "training", "uid": "u-data", "labels": labels},
    }  # fmt: skip
    [pod, *_] = pods(state, phase)
    pod["metadata"] = {"name": "data-x-1", "namespace": "training", "ownerReferences": [{"kind": "Job", "uid": "u-data"}]}
    assert said([*waiting, fetch, pod, *NODES], taken="2026-11-20T09:05:00Z").cause == cause


def ended(code: int, reason: str, kind: str, message: str, node: int) -> list[Data]:
    """Pods whose trainer ended so, by its termination message."""
    left = json.dumps({
        "v": 1, "run": "llama-1b-ddp", "identity": "llama-1b-ddp-6mfnvhz0", "attempt": "1", "code": code, "reason": reason,
        "node_index": node, "host": "x", "cause": {"kind": kind, "message": message},
    })  # fmt: skip
    return pods({"terminated": {**CODE, "exitCode": code, "message": left}}, "Failed")


def test_a_lineage_that_a_run_took_over_that_is_gone_is_no_matter_of_storage() -> None:
    message = "attempt 1 lost its lease on /c: attempt 2 of llama-1b-ddp-k2n8x0qd took over"
    there = ended(203, "StorageUnavailable", "LeaseLostError", message, 0)
    assert said([*there, *NODES], taken="2026-11-20T09:05:00Z").cause == "lineage-taken"


def test_who_gave_up_waiting_did_so_for_a_pod_that_ended_otherwise() -> None:
    message = "node 0 did not come within 1800 s: x-0.x:29400: Name or service not known"
    there = ended(205, "PeersNeverCame", "PeersNeverCame", message, 1)
    assert said([*there, *NODES], taken="2026-11-20T09:05:00Z").cause in ("service-missing", "peers-never-came")
    killed = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-20T09:03:40Z"}
    there[0]["status"]["containerStatuses"][0]["state"] = {"terminated": killed}
    assert said([*there, *NODES], taken="2026-11-20T09:05:00Z").cause == "out-of-memory-host"


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}


@pytest.mark.parametrize("message", [
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi. ",
])  # fmt: skip
@pytest.mark.parametrize("killed", [{"exitCode": 137, "reason": "Error", "finishedAt": "2026-11-20T09:03:40Z"}, None])
@pytest.mark.parametrize("job", [JOB, {**JOB, "status": {"conditions": [FAILED]}}], ids=["waits", "failed"])
def test_a_pod_that_the_kubelet_evicted_says_so_itself(message: str, killed: Data | None, job: Data) -> None:
    """Where it wrote more than its limit it has no DisruptionTarget, and the event is gone after an hour."""
    there = pods({"running": {}}, "Running")
    there[1]["status"] = {
        "phase": "Failed", "reason": "Evicted", "message": message,
        "containerStatuses": [{"name": "trainer", "state": {"terminated": killed}}] if killed else [],
    }  # fmt: skip
    found = said([*there, *NODES], job, taken="2026-11-20T12:05:00Z")
    assert (found.cause, found.known, message.strip(". ") in found.says) == ("evicted-pod", True, True)
    assert ". ;" not in found.says
    there[0] = ended(14, "Diverged", "Diverged", "the loss is not a number", 0)[0]
    assert said([*there, *NODES], job, taken="2026-11-20T12:05:00Z").cause == "code"


def test_a_taint_that_the_pods_tolerate_took_no_node_away() -> None:
    taint = {"key": "example.com/reserved", "effect": "NoExecute"}
    waiting = copy.deepcopy(PODS)
    gone = copy.deepcopy(PODS[2]) | {"metadata": {**PODS[2]["metadata"], "name": "llama-1b-ddp-6mfnvhz0-2-aaaaa"}}
    evicted = event(gone, "TaintManagerEviction", "Marking for deletion Pod", 1, "Normal")
    nodes = [node | {"spec": {"taints": [taint]}} for node in NODES]
    assert said([*waiting, *nodes, evicted], taken="2026-11-20T09:05:00Z").cause == "node-taken"
    for pod in waiting:
        pod["spec"]["tolerations"] = [{"key": "example.com/reserved", "operator": "Exists"}]
    assert said([*waiting, *nodes, evicted], taken="2026-11-20T09:05:00Z").cause == "no-room"


def deleted(at: str, *finalizers: str) -> Data:
    return {**JOB, "metadata": {**JOB["metadata"], "deletionTimestamp": at, "finalizers": list(finalizers)}}


@pytest.mark.parametrize(("at", "finalizers", "cause"), [
    ("2026-11-20T09:00:00Z", ["foregroundDeletion"], "being-deleted"),
    ("2026-11-20T06:00:00Z", ["foregroundDeletion"], "deletion-hangs"),
    ("2026-11-20T09:00:00Z", ["foregroundDeletion", "ray.io/rayjob-finalizer"], "being-deleted"),
    ("2026-11-20T06:00:00Z", ["foregroundDeletion", "ray.io/rayjob-finalizer"], "deletion-hangs"),
    ("2026-11-20T09:00:00Z", ["foregroundDeletion", "example.com/guard"], "stuck-own-finalizer"),
])  # fmt: skip
def test_a_deletion_that_takes_for_ever_is_not_well(at: str, finalizers: list[str], cause: str) -> None:
    found = said([*pods({"running": {}}, "Running"), *NODES], deleted(at, *finalizers), taken="2026-11-20T09:05:00Z")
    assert (found.cause, found.fine) == (cause, cause == "being-deleted")


@pytest.mark.parametrize(("job", "taken", "cause"), [
    (JOB, "2026-11-20T09:00:01Z", "just-made"), (JOB, "2026-11-20T09:10:00Z", "no-controller"), (JOB, None, "no-controller"),
    (queued(), "2026-11-20T09:00:01Z", "kueue-not-looked-at"), (queued(), "2026-11-20T09:10:00Z", "kueue-nobody-admits"),
])  # fmt: skip
def test_an_object_that_has_just_been_made_lacks_no_controller(job: Data, taken: str | None, cause: str) -> None:
    """A plain list does not say when it was taken: what it has may be older than all that it tells of."""
    about = event(JOB, "Any", "", 0) | {"involvedObject": {}}
    found = said([about], {**job, "status": {}}, **({"taken": taken} if taken else {}))
    assert (found.cause, found.fine) == (cause, cause == "just-made")


@pytest.mark.parametrize(("ready", "cause"), [
    ("True", "runs"), ("False", "node-not-ready"), ("Unknown", "node-lost"), ("", "node-removed"),
])  # fmt: skip
def test_pods_that_say_they_are_ready_are_not_where_their_node_is_not(ready: str, cause: str) -> None:
    run = pods({"running": {}}, "Running")
    for pod in run:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    nodes = copy.deepcopy(NODES)
    own = next(node for node in nodes if node["metadata"]["name"] == "gpu-0")
    own["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    there = [node for node in nodes if ready or node is not own]
    assert said([*run, *there], taken="2026-11-20T09:05:00Z").cause == cause


def test_pods_that_are_done_do_not_run() -> None:
    run = pods({"running": {}}, "Running")
    for pod in run:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    found = said([*run, *NODES], taken="2026-11-20T09:05:00Z")
    assert (found.cause, "All 4 pods run and are ready." in found.says) == ("runs", True)
    run[0]["status"] = {"phase": "Succeeded"}
    found = said([*run, *NODES], taken="2026-11-20T09:05:00Z")
    assert (found.cause, found.fine) == ("runs-some-done", True)
    assert "All pods that are not done run and are ready (pod 0 done, pods 1, 2 and 3 running)" in found.says


@pytest.mark.parametrize(("why", "cause"), [
    ("context deadline exceeded", "webhook-down"), ("dial tcp 10.0.0.1:443: connect: connection refused", "webhook-down"),
    ('no endpoints available for service "a"', "webhook-down"),
    ("x509: certificate signed by unknown authority", "webhook-certificate"),
])  # fmt: skip
def test_a_webhook_that_is_not_trusted_is_not_down(why: str, cause: str) -> None:
    called = f'Internal error occurred: failed calling webhook "v.x": failed to call webhook: Post "https://a.b.svc:443/x": {why}'
    refused = event(JOB, "FailedCreate", f"Error creating: {called}", 4)
    assert said([*NODES, refused], taken="2026-11-20T09:05:00Z").cause == cause
