"""What operators and the API server refuse beyond schemas: each row on a manifest that breaks it, and on one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.validate.samples import Data, drop, names, pointers, put, sample

from trainwright.findings.codes import CODES
from trainwright.findings.locate import at
from trainwright.objects.problem import Problem
from trainwright.operators.rows import PODS, Block, Row, blocks, parts, refusals
from trainwright.validate.custom import completed

ROWS = [(block, row) for block in blocks() for row in block.rows]
PT, TF, XGB, MPI = "/spec/pytorchReplicaSpecs", "/spec/tfReplicaSpecs", "/spec/xgbReplicaSpecs", "/spec/mpiReplicaSpecs"
POD = "template/spec/containers"
JOBS, RUNTIME, RAY, TASKS = "/spec/replicatedJobs", "/spec/template/spec/replicatedJobs", "/spec/rayClusterSpec", "/spec/tasks"
VC = "Job.batch.volcano.sh"
KUEUE = "kueue.x-k8s.io"
BESIDE = "/runtime"
QUEUED = {f"{KUEUE}/queue-name": "team"}
SAMPLES = {"Job.batch": "Job batch/v1", VC: "Job batch.volcano.sh/v1alpha1", "*": "PyTorchJob", PODS: "Pod v1"}


def changed(kind: str, changes: Mapping[str, Any]) -> Data:
    """A sample as its webhook completes it, with values at pointers, whose parents need not be there; None takes one away."""
    manifest = sample(SAMPLES.get(kind, kind.partition(".")[0]))
    for pointer, value in changes.items():
        if value is None:
            drop(manifest, pointer)
            continue
        parts = pointer.split("/")
        for above in ("/".join(parts[:depth]) for depth in range(2, len(parts))):
            if at(manifest, above) is None:
                put(manifest, above, {})
        put(manifest, pointer, value)
    return dict(completed(manifest))


def judged(block: Block, row: Row, changes: Mapping[str, Any]) -> tuple[int, list[Problem]]:
    """At how many places a row looks, and what it says; an expression that fails is an error here."""
    kind, slash, pointer = block.objects[0].partition("/")
    top = changed(kind, {place: value for place, value in changes.items() if not place.startswith(BESIDE)})
    beside = {place.removeprefix(BESIDE): value for place, value in changes.items() if place.startswith(BESIDE)}
    runtime = changed("TrainingRuntime", beside)  # to which the sample of a TrainJob refers
    given = {("TrainingRuntime", runtime["metadata"]["name"]): [runtime]}
    found = [part.value for part in parts(top, block.objects[0] if kind == PODS else slash + pointer)]
    places = [(about, place) for about in found for place in row.places(about)]
    scopes = {id(about): block.scope(about, top, given) for about in found}
    return len(places), [problem for about, place in places for problem in block.broken(row, place, scopes[id(about)])]


@pytest.mark.parametrize(("block", "row"), ROWS, ids=[f"{block.folder}-{row.check or row.at}" for block, row in ROWS])
def test_a_row_holds_what_it_says(block: Block, row: Row) -> None:
    _, said = judged(block, row, row.breaks)
    assert said
    assert all(problem.message and problem.fix and problem.code in CODES for problem in said)
    looked_at, said = judged(block, row, row.holds)
    assert looked_at
    assert said == []


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("PyTorchJob", {PT: None}, PT),
    ("PyTorchJob", {f"{PT}/Master/replicas": 2}, f"{PT}/Master/replicas"),
    ("TFJob", {f"{TF}/Chief/{POD}/0/name": "tf"}, f"{TF}/Chief/{POD}"),
    ("TFJob", {"/metadata/name": "t" * 64}, "/metadata/name"),
    ("XGBoostJob", {f"{XGB}/Master/replicas": None}, f"{XGB}/Master/replicas"),
    ("XGBoostJob", {f"{XGB}/Tracker": {}}, f"{XGB}/Tracker"),
    ("XGBoostJob", {f"{XGB}/Worker/{POD}/0/name": "xgb"}, f"{XGB}/Worker/{POD}"),
    ("MPIJob", {"/spec/runPolicy/backoffLimit": -1}, "/spec/runPolicy/backoffLimit"),
    ("MPIJob", {f"{MPI}/Launcher/template/spec/restartPolicy": "OnFailure"}, f"{MPI}/Launcher/template/spec/restartPolicy"),
    ("PyTorchJob", {"/spec/elasticPolicy": {"maxReplicas": 2}}, "/spec/elasticPolicy/minReplicas"),
    ("PyTorchJob", {"/spec/elasticPolicy": {"maxReplicas": 2}, f"{PT}/Worker/replicas": 3}, "/spec/elasticPolicy/maxReplicas"),
    ("TFJob", {"/metadata/name": "t" * 57}, f"{TF}/Chief/replicas"),
    ("XGBoostJob", {f"{XGB}/Worker/template/spec/restartPolicy": "Always"}, f"{XGB}/Worker/template/spec/restartPolicy"),
    ("JobSet", {"/spec/failurePolicy/rules/0/targetReplicatedJobs/0": "nod"},
     "/spec/failurePolicy/rules/0/targetReplicatedJobs/0"),
    ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": None}, "/spec/coordinator"),
    ("JobSet", {f"{JOBS}/1/template/spec/maxFailedIndexes": 1}, f"{JOBS}/1/template/spec/maxFailedIndexes"),
    ("JobSet", {f"{JOBS}/1/template/spec/template/spec/restartPolicy": "Always"},
     f"{JOBS}/1/template/spec/template/spec/restartPolicy"),
    ("RayJob", {f"{RAY}/headGroupSpec/{POD}/0/env/0": {"name": "REDIS_USERNAME"}}, f"{RAY}/headGroupSpec/{POD}/0/env/0"),
    ("RayJob", {"/spec/runtimeEnvYAML": "pip"}, "/spec/runtimeEnvYAML"),
    *(("RayJob", {"/spec/runtimeEnvYAML": text}, "/spec/runtimeEnvYAML") for text in (
        "env_vars: {A: 1}", "env_vars: [A=1]", "pip: [torch]\nconda: env", "pips: [torch]", "pip: {pkgs: [torch]}", "uv: [1]",
        "working_dir: [a]", "py_modules: a", "excludes: a", "conda: [a]", "config: []")),
    ("RayJob", {"/spec/preRunningDeadlineSeconds": 0}, "/spec/preRunningDeadlineSeconds"),
    ("RayJob", {"/spec/submissionMode": "InteractiveMode"}, "/spec/submitterConfig"),
    ("RayJob", {f"{RAY}/workerGroupSpecs/0/rayStartParams/num-gpus": "1.5"}, f"{RAY}/workerGroupSpecs/0/rayStartParams/num-gpus"),
    ("RayJob", {f"{RAY}/workerGroupSpecs/0/idleTimeoutSeconds": -1}, f"{RAY}/workerGroupSpecs/0/idleTimeoutSeconds"),
    ("RayJob", {"/spec/deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf"}, {"policy": "DeleteSelf"}]}},
     "/spec/deletionStrategy/deletionRules/1"),
    (VC, {"/spec/policies": [{"events": ["PodFailed", "CommandIssued"], "action": "AbortJob"}]}, "/spec/policies/0/events/1"),
    (VC, {f"{TASKS}/1/policies": [{"event": "PodFailed"}]}, f"{TASKS}/1/policies/0/action"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]},
     f"{TASKS}/1/policies/1"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}]}, f"{TASKS}/1/policies/0/exitCode"),
    (VC, {f"{TASKS}/1/partitionPolicy": {"networkTopology": {"highestTierAllowed": 2, "highestTierName": "rack"}}},
     f"{TASKS}/1/partitionPolicy/networkTopology/highestTierName"),
    ("Job.batch", {"/spec/template/metadata/labels": {"scheduling.volcano.sh/group-name": "a"}},
     "/spec/template/metadata/labels/scheduling.volcano.sh~1group-name"),
    ("JobSet", {f"{JOBS}/0/template/spec/template/metadata/annotations": {f"{KUEUE}/podset-group-name": "1"}},
     f"{JOBS}/0/template/spec/template/metadata/annotations/{KUEUE}~1podset-group-name"),
    ("JobSet", {f"{JOBS}/0/template/metadata/labels": QUEUED},
     f"{JOBS}/0/template/metadata/labels/{KUEUE}~1queue-name"),
    ("JobSet", {"/metadata/annotations": {f"{KUEUE}/elastic-job": "true"}}, f"/metadata/annotations/{KUEUE}~1elastic-job"),
    ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/template/metadata/annotations": {
        f"{KUEUE}/podset-required-topology": "a", f"{KUEUE}/podset-unconstrained-topology": "true"}},
     f"{RUNTIME}/0/template/spec/template/metadata/annotations/{KUEUE}~1podset-unconstrained-topology"),
    ("TrainJob", {"/metadata/annotations": {f"{KUEUE}/priority-class": "a"}}, f"/metadata/annotations/{KUEUE}~1priority-class"),
    ("PyTorchJob", {f"{PT}/Worker/template/metadata": {"labels": QUEUED}, "/metadata/labels": None},
     f"{PT}/Worker/template/metadata/labels/{KUEUE}~1queue-name"),
    ("TrainJob", {"/spec/runtimeRef/apiGroup": "kubeflow.org"}, "/spec/runtimeRef/apiGroup"),
    ("TrainingRuntime", {"/spec/podGroupPolicy": {"volcano": {}}, f"{RUNTIME}/0/template/spec/template/spec/schedulerName": ""},
     "/spec/podGroupPolicy"),
    ("TrainingRuntime", {f"{RUNTIME}/0/name": "model-initializer"}, f"{RUNTIME}/0/template/spec/template/spec/containers"),
    ("Pod", {"/metadata/annotations": {f"{KUEUE}/pod-group-total-count": "2"}}, f"/metadata/labels/{KUEUE}~1pod-group-name"),
    ("Pod", {"/metadata/annotations": {f"{KUEUE}/podset-slice-required-topology": "a"}},
     f"/metadata/annotations/{KUEUE}~1podset-slice-required-topology"),
    (VC, {"/metadata/name": "train.1"}, "/metadata/name"),
    (VC, {"/metadata/name": "t" * 55, "/spec/plugins": {"ray": ["--head=data"]}}, "/metadata/name"),
    (VC, {"/metadata/name": "t" * 55}, f"{TASKS}/1/name"),
    (VC, {"/spec/plugins/mpi": ["--master=data", "--worker=w"]}, "/spec/plugins/mpi"),
    (VC, {"/spec/plugins/mpi": ["--master=data", "-p", "22"]}, "/spec/plugins/mpi/1"),
    (VC, {"/spec/plugins/mpi": ["--master", "data", "--port", "ssh"]}, "/spec/plugins/mpi/2"),
    (VC, {"/spec/plugins/mpi": ["master=data"]}, "/spec/plugins/mpi"),
    (VC, {"/spec/plugins/svc": ["--publish-not-ready-addresses=yes"]}, "/spec/plugins/svc/0"),
    (VC, {"/spec/plugins/pytorch": []}, "/spec/plugins/pytorch"),
    (VC, {"/spec/plugins/pytorch": ["--master=data", "--worker=workers"]}, "/spec/plugins/pytorch"),
    (VC, {"/spec/plugins/tensorflow": ["--worker=node"]}, "/spec/plugins/tensorflow"),
    (VC, {"/spec/plugins/ray": []}, "/spec/plugins/ray"),
    (VC, {"/spec/plugins/ray": ["--head=data"]}, f"{TASKS}/0/template/spec/containers"),
    (VC, {f"{TASKS}/1/policies": [{"events": ["*"], "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]},
     f"{TASKS}/1/policies"),
    (VC, {f"{TASKS}/1/policies": [{"event": "PodPending", "timeout": "10 min", "action": "AbortJob"}]},
     f"{TASKS}/1/policies/0/timeout"),
    (VC, {f"{TASKS}/1/topologyPolicy": "restricted", f"{TASKS}/1/{POD}/0/resources": {}}, f"{TASKS}/1/topologyPolicy"),
    (VC, {"/spec/volumes": [{"mountPath": "/d", "volumeClaimName": "a", "volumeClaim": {}}]}, "/spec/volumes/0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "place"), REFUSED)
def test_a_row_holds_at_its_other_places(kind: str, changes: dict[str, Any], place: str) -> None:
    assert place in {problem.pointer for problem in refusals(changed(kind, changes))}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((name, {}) for name in ("Job.batch", VC, "JobSet", "MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "RayJob")),
        ("TrainJob", {}),
        ("MPIJob", {f"{MPI}/Worker": None}),
        ("MPIJob", {f"{MPI}/Launcher/replicas": None, "/spec/runPolicy/cleanPodPolicy": None}),
        ("PyTorchJob", {f"{PT}/Worker": None, "/spec/runPolicy/schedulingPolicy": None}),
        ("PyTorchJob", {f"{PT}/Master": None, f"{PT}/Worker/replicas": 2, f"{PT}/Worker/{POD}/0/command": [
            "torchrun", "--rdzv_endpoint=train-worker-0:29400", "train.py"]}),
        ("PyTorchJob", {f"{PT}/Worker/replicas": None}),
        *(("PyTorchJob", {f"{PT}/Master": None, f"{PT}/Worker/replicas": 2, "/spec/elasticPolicy": policy}) for policy in (
            {}, {"minReplicas": 2}, {"minReplicas": 1, "maxReplicas": 2}, {"minReplicas": 3, "maxReplicas": 4, "metrics": []})),
        ("TFJob", {f"{TF}/worker": {"replicas": 1, "template": sample("TFJob")["spec"]["tfReplicaSpecs"]["Worker"]["template"]}}),
        ("JobSet", {"/metadata/name": "t" * 26, "/spec/network/subdomain": None}),
        ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": None, "/spec/coordinator": None}),
        ("JobSet", {f"{JOBS}/0/replicas": None, f"{JOBS}/1/template/spec/completionMode": None}),
        ("RayJob", {RAY: None, "/spec/clusterSelector": {"ray.io/cluster": "mine"}}),
        *(("RayJob", {"/spec/runtimeEnvYAML": text}) for text in (
            "pip: [torch]\n", "", "env_vars: {A: '1'}\nconda: null", "pip: {packages: [torch], pip_check: true}", "uv: a.txt",
            "working_dir: https://example.com/a.zip\nexcludes: [data]", "conda: {dependencies: [a]}",
            "config: {eager_install: true}", "image_uri: example.com/a:1", "_ray_commit: a")),
        ("RayJob", {"/spec/submissionMode": "HTTPMode", "/spec/submitterConfig": None}),
        ("RayJob", {f"{RAY}/headGroupSpec/rayStartParams": {"dashboard-host": "0.0.0.0", "block": "true", "memory": "80000000"}}),
        ("RayJob", {"/spec/entrypoint": None, "/spec/submitterPodTemplate": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": ["ray", "job"]}]}}}),
        ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/parallelism": 2}),
        ("TrainingRuntime", {"/spec/podGroupPolicy": None, f"{RUNTIME}/0/template/spec/template/spec/schedulerName": None}),
        ("TrainJob", {"/spec/runtimeRef": {"name": "torch"}}),
        ("TrainJob", {"/spec/initializer": {"dataset": {"storageUri": "hf://a/b"}}}),
        ("RayJob", {"/metadata/labels": QUEUED, "/spec/clusterSelector": {"ray.io/cluster": "mine"}, RAY: None}),
        ("PyTorchJob", {f"{PT}/Master/template/metadata": {"annotations": {"scheduling.k8s.io/group-name": "train"}}}),
        ("Job.batch", {"/metadata/annotations": {f"{KUEUE}/job-completions-equal-parallelism": "true"}}),
        ("Job.batch", {"/spec/template/metadata/labels": QUEUED, "/metadata/labels": QUEUED}),
        ("Pod", {"/metadata/annotations": {f"{KUEUE}/podset-required-topology": "cloud.example.com/rack"}}),
        (VC, {"/spec/plugins/mpi": ["--master=data"]}),
        (VC, {"/spec/plugins/mpi": ["-master", "data", "--port", "2222", "--", "else"], f"{TASKS}/1/name": "worker"}),
        (VC, {"/spec/plugins/pytorch": ["--master=data", "-wait-master-enabled", "--port=23456"]}),
        (VC, {"/spec/plugins/tensorflow": ["--worker=worker"]}),
        (VC, {"/metadata/name": "train.1", "/spec/plugins": {"env": []}}),
        (VC, {"/spec/volumes": [{"mountPath": "/d", "volumeClaim": {}}, {"mountPath": "/e", "volumeClaimName": "a.b"}]}),
        (VC, {"/spec/policies": [{"event": "PodPending", "timeout": "1h30m", "action": "AbortJob"}]}),
        (VC, {f"{TASKS}/1/topologyPolicy": "none", f"{TASKS}/1/{POD}/0/resources": {}}),
        (VC, {"/spec/policies": [{"event": "*", "action": "RestartJob"}]}),
        (VC, {"/spec/policies": [{"event": "PodFailed", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
              f"{TASKS}/1/template/spec/restartPolicy": "Never"}),
    ],
)  # fmt: skip
def test_what_defaults_and_operators_allow_is_not_refused(kind: str, changes: dict[str, Any]) -> None:
    assert list(refusals(changed(kind, changes))) == []


def test_a_cluster_of_its_own_has_a_longer_name() -> None:
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "t" * 53},
        "spec": sample("RayJob")["spec"]["rayClusterSpec"],
    }
    assert list(refusals(cluster)) == []
    cluster["metadata"]["name"] += "t"
    assert [problem.pointer for problem in refusals(cluster)] == ["/metadata/name"]


def test_null_states_nothing() -> None:
    job = changed("Job.batch", {})
    job["spec"] |= {"completions": None, "parallelism": 3}
    assert [problem.pointer for problem in refusals(job)] == ["/spec/completions"]


@given(data=st.data(), name=st.sampled_from([*names(custom=True), "Job batch/v1"]))
def test_an_object_of_any_shape_is_read(data: st.DataObject, name: str) -> None:
    spoilt = sample(name)
    junk: st.SearchStrategy[Any] = st.sampled_from(
        [None, 0, -1, 2**40, 1.5, True, "", "x", [], [None], ["x"], [[]], [{}], {}, {"name": 1}, {"0": {}}]
    )
    place = data.draw(st.sampled_from([it for it in pointers(spoilt) if it not in ("", "/kind", "/apiVersion")]))
    put(spoilt, place, data.draw(junk))
    for problem in refusals(completed(spoilt)):
        assert isinstance(problem.pointer, str)
