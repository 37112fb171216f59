"""What operators refuse beyond their schemas, each rule on a valid object with one thing changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.validate.samples import Data, drop, names, pointers, put, sample

from trainwright.operators.webhooks import WEBHOOKS, objections

GONE = object()
PT, TF, XGB, MPI = "/spec/pytorchReplicaSpecs", "/spec/tfReplicaSpecs", "/spec/xgbReplicaSpecs", "/spec/mpiReplicaSpecs"
POD = "template/spec/containers"
JOBS, RUNTIME, RAY, TASKS = "/spec/replicatedJobs", "/spec/template/spec/replicatedJobs", "/spec/rayClusterSpec", "/spec/tasks"
VC = "Job batch.volcano.sh/v1alpha1"

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("PyTorchJob", {"/metadata/name": "0train"}, "/metadata/name"),
    ("PyTorchJob", {PT: GONE}, PT),
    ("PyTorchJob", {f"{PT}/Workers": {"replicas": 1}}, f"{PT}/Workers"),
    ("PyTorchJob", {f"{PT}/Master/replicas": GONE}, f"{PT}/Master/replicas"),
    ("PyTorchJob", {f"{PT}/Master/replicas": 2}, f"{PT}/Master/replicas"),
    ("PyTorchJob", {f"{PT}/Worker/replicas": 0}, f"{PT}/Worker/replicas"),
    ("PyTorchJob", {f"{PT}/Worker/{POD}/0/name": "main"}, f"{PT}/Worker/{POD}"),
    ("PyTorchJob", {f"{PT}/Worker/{POD}/0/image": GONE}, f"{PT}/Worker/{POD}/0/image"),
    ("PyTorchJob", {f"{PT}/Worker/{POD}": []}, f"{PT}/Worker/{POD}"),
    ("PyTorchJob", {"/spec/elasticPolicy": {}, f"{PT}/Worker": GONE}, f"{PT}/Worker"),
    ("PyTorchJob", {"/spec/elasticPolicy": {"nProcPerNode": 8}}, "/spec/elasticPolicy/nProcPerNode"),
    ("PyTorchJob", {"/spec/elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}, "/spec/elasticPolicy/minReplicas"),
    ("PyTorchJob", {"/spec/runPolicy/managedBy": "me"}, "/spec/runPolicy/managedBy"),
    ("PyTorchJob", {f"{PT}/Worker/restartPolicy": "OnFailur"}, f"{PT}/Worker/restartPolicy"),
    ("TFJob", {f"{TF}/Chief/{POD}/0/name": "tf"}, f"{TF}/Chief/{POD}"),
    ("TFJob", {f"{TF}/Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}},
     f"{TF}/Master"),
    ("TFJob", {"/metadata/name": "t" * 64}, "/metadata/name"),
    ("XGBoostJob", {f"{XGB}/Master": GONE}, f"{XGB}/Master"),
    ("XGBoostJob", {f"{XGB}/Master/replicas": GONE}, f"{XGB}/Master/replicas"),
    ("XGBoostJob", {f"{XGB}/Tracker": {}}, f"{XGB}/Tracker"),
    ("XGBoostJob", {f"{XGB}/Worker/{POD}/0/name": "xgb"}, f"{XGB}/Worker/{POD}"),
    ("MPIJob", {"/metadata/name": "t" * 56}, "/metadata/name"),
    ("MPIJob", {f"{MPI}/Launcher": GONE}, f"{MPI}/Launcher"),
    ("MPIJob", {f"{MPI}/Launcher/replicas": 2}, f"{MPI}/Launcher/replicas"),
    ("MPIJob", {f"{MPI}/Launcher/restartPolicy": "Always"}, f"{MPI}/Launcher/restartPolicy"),
    ("MPIJob", {f"{MPI}/Worker/replicas": GONE}, f"{MPI}/Worker/replicas"),
    ("MPIJob", {f"{MPI}/Worker/{POD}": []}, f"{MPI}/Worker/{POD}"),
    ("MPIJob", {"/spec/slotsPerWorker": -1}, "/spec/slotsPerWorker"),
    ("MPIJob", {"/spec/runPolicy/cleanPodPolicy": "Later"}, "/spec/runPolicy/cleanPodPolicy"),
    ("MPIJob", {"/spec/runPolicy/managedBy": "me"}, "/spec/runPolicy/managedBy"),
    ("MPIJob", {"/spec/runPolicy/backoffLimit": -1}, "/spec/runPolicy/backoffLimit"),
    ("MPIJob", {"/spec/mpiImplementation": "openmpi"}, "/spec/mpiImplementation"),
    ("MPIJob", {"/spec/sshAuthMountPath": ""}, "/spec/sshAuthMountPath"),
    ("JobSet", {"/metadata/name": "t" * 50}, f"{JOBS}/0/name"),
    ("JobSet", {"/metadata/name": "t" * 62}, f"{JOBS}/1/name"),
    ("JobSet", {"/spec/network/subdomain": "0a"}, "/spec/network/subdomain"),
    ("JobSet", {"/spec/managedBy": "me"}, "/spec/managedBy"),
    ("JobSet", {f"{JOBS}/0/dependsOn": [{"name": "node", "status": "Ready"}]}, f"{JOBS}/0/dependsOn"),
    ("JobSet", {f"{JOBS}/1/dependsOn/0/name": "dta"}, f"{JOBS}/1/dependsOn/0/name"),
    ("JobSet", {f"{JOBS}/1/groupName": "A"}, f"{JOBS}/1/groupName"),
    ("JobSet", {f"{JOBS}/1/replicas": 2**30}, f"{JOBS}/1/replicas"),
    ("JobSet", {"/spec/successPolicy/targetReplicatedJobs/0": "nod"}, "/spec/successPolicy/targetReplicatedJobs/0"),
    ("JobSet", {"/spec/failurePolicy/rules/0/targetReplicatedJobs/0": "nod"},
     "/spec/failurePolicy/rules/0/targetReplicatedJobs/0"),
    ("JobSet", {"/spec/failurePolicy/rules/0/onJobFailureReasons/0": "Bad"}, "/spec/failurePolicy/rules/0/onJobFailureReasons/0"),
    ("JobSet", {"/spec/failurePolicy/rules": [{"name": "a"}, {"name": "a"}]}, "/spec/failurePolicy/rules/1/name"),
    ("JobSet", {"/spec/coordinator/replicatedJob": "nod"}, "/spec/coordinator/replicatedJob"),
    ("JobSet", {"/spec/coordinator/jobIndex": 1}, "/spec/coordinator/jobIndex"),
    ("JobSet", {"/spec/coordinator/podIndex": 4}, "/spec/coordinator/podIndex"),
    ("JobSet", {f"{JOBS}/1/template/spec/completionMode": "NonIndexed"}, "/spec/coordinator/replicatedJob"),
    ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": GONE}, "/spec/coordinator"),
    ("JobSet", {"/spec/network/subdomain": "t" * 49}, "/spec/coordinator"),
    ("JobSet", {f"{JOBS}/0/template/spec/completions": GONE}, f"{JOBS}/0/template/spec/completions"),
    ("JobSet", {f"{JOBS}/1/template/spec/maxFailedIndexes": 1}, f"{JOBS}/1/template/spec/maxFailedIndexes"),
    ("JobSet", {f"{JOBS}/1/template/spec/template/spec/restartPolicy": "Always"},
     f"{JOBS}/1/template/spec/template/spec/restartPolicy"),
    ("JobSet", {"/spec/volumeClaimPolicies": [{"templates": [{"metadata": {"name": "a"}}]}]},
     "/spec/volumeClaimPolicies/0/templates/0/metadata/name"),
    ("TrainJob", {"/metadata/name": "t" * 50}, "/metadata/name"),
    ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/podReplacementPolicy": "TerminatingOrFailed",
                         f"{RUNTIME}/0/template/spec/podFailurePolicy": {"rules": []}},
     f"{RUNTIME}/0/template/spec/podReplacementPolicy"),
    ("TrainJob", {"/spec/trainer/env/0/name": "PET_NNODES"}, "/spec/trainer/env/0/name"),
    ("TrainJob", {"/spec/runtimePatches/0/manager": "me"}, "/spec/runtimePatches/0/manager"),
    ("TrainingRuntime", {f"{RUNTIME}/0/replicas": 2}, f"{RUNTIME}/0/replicas"),
    ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/{POD}/0/name": "trainer"}, f"{RUNTIME}/0/template/spec/{POD}"),
    ("TrainingRuntime", {"/spec/mlPolicy/mpi": {}}, "/spec/mlPolicy/mpi"),
    ("TrainingRuntime", {"/spec/podGroupPolicy/volcano": {}}, "/spec/podGroupPolicy/volcano"),
    ("RayJob", {"/metadata/name": "t" * 48}, "/metadata/name"),
    ("RayJob", {"/metadata/name": "a.b"}, "/metadata/name"),
    ("RayJob", {RAY: GONE}, RAY),
    ("RayJob", {"/spec/clusterSelector": {"cluster": "x"}}, "/spec/clusterSelector"),
    ("RayJob", {"/spec/shutdownAfterJobFinishes": False}, "/spec/ttlSecondsAfterFinished"),
    ("RayJob", {"/spec/ttlSecondsAfterFinished": -1}, "/spec/ttlSecondsAfterFinished"),
    ("RayJob", {"/spec/shutdownAfterJobFinishes": False, "/spec/suspend": True}, "/spec/suspend"),
    ("RayJob", {"/spec/activeDeadlineSeconds": 0}, "/spec/activeDeadlineSeconds"),
    ("RayJob", {"/spec/backoffLimit": -1}, "/spec/backoffLimit"),
    ("RayJob", {"/spec/submissionMode": "InteractiveMode", "/spec/backoffLimit": 1}, "/spec/backoffLimit"),
    ("RayJob", {"/spec/submissionMode": "SidecarMode"}, "/spec/submitterConfig"),
    ("RayJob", {"/spec/submissionMode": "SidecarMode", f"{RAY}/headGroupSpec/template/spec/restartPolicy": "Always"},
     f"{RAY}/headGroupSpec/template/spec/restartPolicy"),
    ("RayJob", {"/spec/deletionStrategy": {"deletionRules": [{}]}}, "/spec/deletionStrategy/deletionRules"),
    ("RayJob", {f"{RAY}/headGroupSpec/{POD}": []}, f"{RAY}/headGroupSpec/{POD}"),
    ("RayJob", {f"{RAY}/headGroupSpec/resources": {"CPU": "1"}}, f"{RAY}/headGroupSpec/rayStartParams/num-cpus"),
    ("RayJob", {f"{RAY}/headGroupSpec/rayStartParams/labels": "a=b"}, f"{RAY}/headGroupSpec/rayStartParams/labels"),
    ("RayJob", {f"{RAY}/headGroupSpec/labels": {"a b": "c"}}, f"{RAY}/headGroupSpec/labels/a b"),
    ("RayJob", {f"{RAY}/headGroupSpec/{POD}/0/env/0": {"name": "RAY_enable_autoscaler_v2", "value": "1"}},
     f"{RAY}/headGroupSpec/{POD}/0/env/0"),
    ("RayJob", {f"{RAY}/headGroupSpec/{POD}/0/env/0": {"name": "RAY_REDIS_ADDRESS", "value": "x"}},
     f"{RAY}/headGroupSpec/{POD}/0/env/0"),
    ("RayJob", {f"{RAY}/workerGroupSpecs/0/minReplicas": 5}, f"{RAY}/workerGroupSpecs/0/minReplicas"),
    ("RayJob", {f"{RAY}/workerGroupSpecs/0/replicas": 5}, f"{RAY}/workerGroupSpecs/0/replicas"),
    ("RayJob", {f"{RAY}/enableInTreeAutoscaling": True, f"{RAY}/autoscalerOptions": {"version": "v2"},
                f"{RAY}/headGroupSpec/template/spec/restartPolicy": "OnFailure"},
     f"{RAY}/headGroupSpec/template/spec/restartPolicy"),
    ("RayJob", {"/spec/runtimeEnvYAML": "pip"}, "/spec/runtimeEnvYAML"),
    ("RayJob", {"/spec/runtimeEnvYAML": "a: b: c"}, "/spec/runtimeEnvYAML"),
    ("RayJob", {f"{RAY}/gcsFaultToleranceOptions": {"redisAddress": "r"}, "/metadata/annotations": {"ray.io/ft-enabled": "true"}},
     "/metadata/annotations/ray.io~1ft-enabled"),
    (VC, {"/spec/minAvailable": 4}, "/spec/minAvailable"),
    (VC, {"/spec/maxRetry": -1}, "/spec/maxRetry"),
    (VC, {"/spec/plugins/horovod": []}, "/spec/plugins/horovod"),
    (VC, {TASKS: []}, TASKS),
    (VC, {f"{TASKS}/1/name": "data"}, f"{TASKS}/1/name"),
    (VC, {f"{TASKS}/1/name": "Data"}, f"{TASKS}/1/name"),
    (VC, {f"{TASKS}/1/replicas": -1}, f"{TASKS}/1/replicas"),
    (VC, {f"{TASKS}/1/minAvailable": 3}, f"{TASKS}/1/minAvailable"),
    (VC, {f"{TASKS}/1/dependsOn/name/0": "dat"}, f"{TASKS}/1/dependsOn/name"),
    (VC, {f"{TASKS}/0/dependsOn": {"name": ["worker"]}}, f"{TASKS}/0/dependsOn"),
    (VC, {"/metadata/name": "t" * 60}, f"{TASKS}/0/name"),
    (VC, {"/spec/policies/0/event": "OutOfSync"}, "/spec/policies/0/event"),
    (VC, {"/spec/policies": [{"events": ["PodFailed", "CommandIssued"], "action": "AbortJob"}]}, "/spec/policies/0/events/1"),
    (VC, {"/spec/policies/0/action": "SyncJob"}, "/spec/policies/0/action"),
    (VC, {f"{TASKS}/1/policies": [{"event": "PodFailed"}]}, f"{TASKS}/1/policies/0/action"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]},
     f"{TASKS}/1/policies/1"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}]}, f"{TASKS}/1/policies/0/exitCode"),
    (VC, {"/spec/plugins/mpi": []}, "/spec/plugins/mpi"),
    (VC, {f"{TASKS}/1/partitionPolicy": {"networkTopology": {"highestTierAllowed": 2, "highestTierName": "rack"}}},
     f"{TASKS}/1/partitionPolicy/networkTopology/highestTierName"),
]  # fmt: skip


def changed(name: str, changes: dict[str, Any]) -> Data:
    data = sample(name)
    for pointer, value in changes.items():
        drop(data, pointer) if value is GONE else put(data, pointer, value)
    return data


@pytest.mark.parametrize(("name", "changes", "place"), CASES)
def test_an_operator_refuses(name: str, changes: dict[str, Any], place: str) -> None:
    said = list(objections(changed(name, changes)))
    assert place in {objection.pointer for objection in said}
    assert all(objection.message and objection.fix for objection in said)


@pytest.mark.parametrize("name", names(custom=True))
def test_operators_take_the_samples(name: str) -> None:
    assert list(objections(sample(name))) == []


def test_every_operator_with_rules_has_cases() -> None:
    covered = {(sample(name)["apiVersion"].rpartition("/")[0], sample(name)["kind"]) for name, _, _ in CASES}
    alike = {("trainer.kubeflow.org", "ClusterTrainingRuntime"), ("ray.io", "RayCluster")}
    assert covered | alike == WEBHOOKS.keys()


def test_a_cluster_of_its_own_has_a_longer_name() -> None:
    job = sample("RayJob")
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "t" * 53},
        "spec": job["spec"]["rayClusterSpec"],
    }
    assert list(objections(cluster)) == []
    cluster["metadata"]["name"] += "t"
    assert [objection.pointer for objection in objections(cluster)] == ["/metadata/name"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("MPIJob", {f"{MPI}/Worker": GONE}),
        ("MPIJob", {f"{MPI}/Launcher/replicas": GONE, "/spec/runPolicy/cleanPodPolicy": GONE}),
        ("PyTorchJob", {f"{PT}/Worker": GONE}),
        ("PyTorchJob", {f"{PT}/Worker/replicas": GONE}),
        ("PyTorchJob", {"/spec/elasticPolicy": {"minReplicas": 1}}),
        ("JobSet", {"/metadata/name": "t" * 26, "/spec/network/subdomain": GONE}),
        ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": GONE, "/spec/coordinator": GONE}),
        ("JobSet", {"/spec/network/subdomain": "t" * 48}),
        ("JobSet", {f"{JOBS}/0/replicas": GONE, f"{JOBS}/1/template/spec/completionMode": GONE}),
        ("RayJob", {RAY: GONE, "/spec/clusterSelector": {"ray.io/cluster": "mine"}}),
        ("RayJob", {"/spec/runtimeEnvYAML": "pip: [torch]\n"}),
        ("RayJob", {"/spec/runtimeEnvYAML": "# nothing yet\n"}),
        ("PyTorchJob", {"/spec/elasticPolicy": {"minReplicas": 2, "maxReplicas": 2}}),
        ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/parallelism": 2}),
        (VC, {"/spec/plugins/mpi": ["--master=data"]}),
        (VC, {"/spec/plugins/mpi": ["-master=data", "--worker=worker"]}),
        (VC, {"/spec/policies": [{"event": "*", "action": "RestartJob"}]}),
        (VC, {"/spec/policies": [{"exitCode": 3, "action": "AbortJob"}], f"{TASKS}/1/template/spec/restartPolicy": "Never"}),
        (VC, {"/spec/policies": [{"event": "PodFailed", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
              f"{TASKS}/1/template/spec/restartPolicy": "Never"}),
    ],
)
def test_what_defaults_and_operators_allow_is_no_objection(name: str, changes: dict[str, Any]) -> None:
    assert list(objections(changed(name, changes))) == []


@given(data=st.data(), name=st.sampled_from(names(custom=True)))
def test_an_object_of_any_shape_is_read(data: st.DataObject, name: str) -> None:
    spoilt = sample(name)
    junk: st.SearchStrategy[Any] = st.sampled_from(
        [None, 0, -1, 2**40, 1.5, True, "", "x", [], [None], ["x"], [[]], [{}], {}, {"name": 1}, {"0": {}}]
    )
    place = data.draw(st.sampled_from([it for it in pointers(spoilt) if it not in ("", "/kind", "/apiVersion")]))
    put(spoilt, place, data.draw(junk))
    for objection in objections(spoilt):
        assert isinstance(objection.pointer, str)
