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
    found = [part.value for part in parts(changed(kind, changes), block.objects[0] if kind == PODS else slash + pointer)]
    places = [(about, place) for about in found for place in row.places(about)]
    return len(places), [problem for about, place in places for problem in block.broken(row, place, block.scope(about))]


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
    ("JobSet", {"/spec/failurePolicy/rules/0/targetReplicatedJobs/0": "nod"},
     "/spec/failurePolicy/rules/0/targetReplicatedJobs/0"),
    ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": None}, "/spec/coordinator"),
    ("JobSet", {f"{JOBS}/1/template/spec/maxFailedIndexes": 1}, f"{JOBS}/1/template/spec/maxFailedIndexes"),
    ("JobSet", {f"{JOBS}/1/template/spec/template/spec/restartPolicy": "Always"},
     f"{JOBS}/1/template/spec/template/spec/restartPolicy"),
    ("RayJob", {f"{RAY}/headGroupSpec/{POD}/0/env/0": {"name": "REDIS_USERNAME"}}, f"{RAY}/headGroupSpec/{POD}/0/env/0"),
    ("RayJob", {"/spec/runtimeEnvYAML": "pip"}, "/spec/runtimeEnvYAML"),
    (VC, {"/spec/policies": [{"events": ["PodFailed", "CommandIssued"], "action": "AbortJob"}]}, "/spec/policies/0/events/1"),
    (VC, {f"{TASKS}/1/policies": [{"event": "PodFailed"}]}, f"{TASKS}/1/policies/0/action"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]},
     f"{TASKS}/1/policies/1"),
    (VC, {f"{TASKS}/1/policies": [{"exitCode": 3, "action": "AbortJob"}]}, f"{TASKS}/1/policies/0/exitCode"),
    (VC, {f"{TASKS}/1/partitionPolicy": {"networkTopology": {"highestTierAllowed": 2, "highestTierName": "rack"}}},
     f"{TASKS}/1/partitionPolicy/networkTopology/highestTierName"),
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
        ("PyTorchJob", {f"{PT}/Worker": None}),
        ("PyTorchJob", {f"{PT}/Worker/replicas": None}),
        ("PyTorchJob", {"/spec/elasticPolicy": {"minReplicas": 1}}),
        ("JobSet", {"/metadata/name": "t" * 26, "/spec/network/subdomain": None}),
        ("JobSet", {"/metadata/name": "t" * 27, "/spec/network/subdomain": None, "/spec/coordinator": None}),
        ("JobSet", {f"{JOBS}/0/replicas": None, f"{JOBS}/1/template/spec/completionMode": None}),
        ("RayJob", {RAY: None, "/spec/clusterSelector": {"ray.io/cluster": "mine"}}),
        ("RayJob", {"/spec/runtimeEnvYAML": "pip: [torch]\n"}),
        ("TrainingRuntime", {f"{RUNTIME}/0/template/spec/parallelism": 2}),
        (VC, {"/spec/plugins/mpi": ["--master=data"]}),
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
