"""Exactly the key that each scheduler reads, on the object where it reads it, and on no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.compiler.controllers import Pod, pods
from tests.compiler.example import Data, compiled
from tests.compiler.objects import lines_without_answer, problems_of, the, top
from tests.compiler.targets import CASES, CLUSTER, flags, in_gangs
from tests.compiler.targets import on as run_on

from trainwright.compile import CompiledRun
from trainwright.report.plan import plan_rows

GROUP_LABEL, GROUP_ANNOTATION = "scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name"
QUEUE = "kueue.x-k8s.io/queue-name"
RACK: Data = {"topology": {"rack": {"label": "example.com/rack"}}}
KUEUE: Data = {"kueue": {"version": "0.19.2"}}


def on(target: str, run: Data | None = None, cluster: Data | None = None, gang: str | None = None) -> CompiledRun:
    namespaces = {"training": {"pod_security": "privileged", "queues": {"gold": {"managed": False}}}}
    profile = CLUSTER | {"namespaces": namespaces} | (in_gangs(gang) if gang else {}) | (cluster or {})
    return compiled(run_on(target, **(run or {})), profile)


def keys(result: CompiledRun, key: str) -> Iterator[tuple[str, Any]]:
    """``Kind/path`` and value of a key, wherever it is."""
    waiting: list[tuple[str, Any]] = [(str(manifest["kind"]), manifest) for manifest in result.manifests]
    while waiting:
        place, node = waiting.pop()
        for name, value in node.items() if isinstance(node, dict) else enumerate(node):
            if name == key:
                yield place, value
            if isinstance(value, dict | list):
                waiting.append((f"{place}/{name}", value))


@pytest.mark.parametrize("target", ["indexed-job", "job-set"])
def test_a_group_of_ours_is_named_by_its_pods(target: str) -> None:
    for gang, key, other, group in (
        ("volcano", GROUP_ANNOTATION, GROUP_LABEL, "scheduling.volcano.sh/v1beta1"),
        ("coscheduling", GROUP_LABEL, GROUP_ANNOTATION, "scheduling.x-k8s.io/v1alpha1"),
    ):
        result = on(target, gang=gang)
        assert the(result, "PodGroup")["apiVersion"] == group
        ((place, name),) = keys(result, key)
        assert name == the(result, "PodGroup")["metadata"]["name"] == result.plan.name
        assert place.endswith(f"/template/metadata/{'annotations' if gang == 'volcano' else 'labels'}")
        assert not list(keys(result, other)), "each scheduler reads its own and nothing else"


@pytest.mark.parametrize("target", ["pytorch-job", "mpi-job", "train-job", "ray-job"])
@pytest.mark.parametrize("gang", ["volcano", "coscheduling"])
def test_where_an_operator_makes_the_group_we_make_none(target: str, gang: str) -> None:
    result = on(target, gang=gang)
    assert "PodGroup" not in {manifest["kind"] for manifest in result.manifests}
    assert not [*keys(result, GROUP_LABEL), *keys(result, GROUP_ANNOTATION)]
    names = [name for _, name in keys(result, "schedulerName")]
    assert set(names) == {"volcano" if gang == "volcano" else "scheduler-plugins-scheduler"}, "no operator is left to set it"
    if target != "train-job":
        made = pods(result.manifests, flags(gang))
        assert {pod.spec["schedulerName"] for pod in made} == set(names), "each operator leaves it so, or writes the same"
        for pod in made:
            group = pod.annotations[GROUP_ANNOTATION] if gang == "volcano" else pod.labels[GROUP_LABEL]
            assert result.plan.name in group


def test_operators_are_told_the_minimum_and_the_queue_in_their_own_words() -> None:
    run: Data = {"queue": "gold", "priority": "high"}
    for target, total in (("pytorch-job", 2), ("mpi-job", 3)):
        ((_, policy),) = keys(on(target, run, gang="volcano"), "schedulingPolicy")
        assert policy == {"minAvailable": total, "queue": "gold", "priorityClass": "high"}
        ((_, policy),) = keys(on(target, {"priority": "high"}, gang="coscheduling"), "schedulingPolicy")
        assert policy == {"minAvailable": total, "priorityClass": "high"}
    job = on("ray-job", run, gang="volcano")
    labels = the(job, "RayJob")["metadata"]["labels"]
    assert (labels["ray.io/gang-scheduling-enabled"], labels["volcano.sh/queue-name"]) == ("true", "gold")
    assert labels["ray.io/priority-class-name"] == "high"
    for gang in ("coscheduling", None):
        assert not list(keys(on("ray-job", {"priority": "high"}, gang=gang), "ray.io/priority-class-name")), "Volcano's alone"
    runtime = the(on("train-job", run, gang="volcano"), "TrainingRuntime")["spec"]
    assert runtime["podGroupPolicy"] == {"volcano": {}}
    assert runtime["template"]["metadata"]["annotations"] == {"scheduling.volcano.sh/queue-name": "gold"}
    assert the(on("indexed-job", run, gang="volcano"), "PodGroup")["spec"] == {
        "minMember": 2, "queue": "gold", "priorityClassName": "high",
    }  # fmt: skip
    assert the(on("indexed-job", gang="volcano"), "PodGroup")["spec"]["queue"] == "default"


@pytest.mark.parametrize("target", [name for name, case in CASES.items() if case.kueue])
def test_kueue_reads_its_label_on_the_top_object_and_nowhere_below(target: str) -> None:
    """A second label on a child would have it suspended twice (kubernetes-sigs/kueue#2612)."""
    result = on(target, {"queue": "gold"}, KUEUE)
    _, kind = CASES[target].kind
    assert list(keys(result, QUEUE)) == [(f"{kind}/metadata/labels", "gold")]
    assert not list(keys(on(target), QUEUE))
    assert not list(keys(on(target, {"queue": "gold"}, gang="volcano"), QUEUE)), "a queue of Volcano is not one of Kueue"


@pytest.mark.parametrize(("required", "word"), [(True, "required"), (False, "preferred")])
def test_pods_are_together_by_kueue_or_by_affinity(required: bool, word: str) -> None:
    run: Data = {"placement": {"together": "rack", "required": required}}
    queued = on("job-set", run | {"queue": "gold"}, KUEUE | RACK)
    ((place, level),) = keys(queued, f"kueue.x-k8s.io/podset-{word}-topology")
    assert (level, place.endswith("/template/metadata/annotations")) == ("example.com/rack", True)
    assert not list(keys(queued, "podAffinity")), "Kueue picks the place itself"
    unaware = {"kueue": KUEUE["kueue"] | {"topology_aware": False}}
    for alone in (on("job-set", run, RACK), on("job-set", run | {"queue": "gold"}, unaware | RACK)):
        ((_, affinity),) = keys(alone, "podAffinity")
        ((rule, (term,)),) = affinity.items()
        assert rule == f"{word}DuringSchedulingIgnoredDuringExecution"
        assert (term if required else term["podAffinityTerm"])["topologyKey"] == "example.com/rack"
        assert not list(keys(alone, f"kueue.x-k8s.io/podset-{word}-topology"))


MANAGER_AT = {
    "indexed-job": "Job/spec", "job-set": "JobSet/spec", "train-job": "TrainJob/spec", "ray-job": "RayJob/spec",
    "pytorch-job": "PyTorchJob/spec/runPolicy", "tf-job": "TFJob/spec/runPolicy", "xgboost-job": "XGBoostJob/spec/runPolicy",
    "mpi-job": "MPIJob/spec/runPolicy",
}  # fmt: skip


def sending(sends: bool = True) -> Data:
    """A profile whose queue sends its runs to other clusters."""
    queues = {"gold": {"managed": False, "multikueue": sends}}
    return {"namespaces": {"training": {"pod_security": "privileged", "queues": queues}}}


@pytest.mark.parametrize("target", [name for name in CASES if CASES[name].kueue])
def test_kueue_manages_a_run_that_it_sends_elsewhere(target: str) -> None:
    result = on(target, {"queue": "gold"}, KUEUE | sending())
    assert list(keys(result, "managedBy")) == [(MANAGER_AT[target], "kueue.x-k8s.io/multikueue")]
    assert top(result)["metadata"]["labels"][QUEUE] == "gold"
    assert problems_of(result) == lines_without_answer(result) == []
    for run, cluster in (({"queue": "gold"}, KUEUE | sending(False)), ({}, KUEUE | sending()), ({"queue": "gold"}, sending())):
        assert not list(keys(on(target, run, cluster | ({} if "kueue" in cluster else in_gangs("volcano"))), "managedBy"))


MPI_AND_RAY = [("mpi-job", "launcher", "worker"), ("ray-job", "head", "worker"), ("train-job", "launcher", "node")]
MPIRUN: Data = {"topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}}


def pods_of(target: str, run: Data, cluster: Data | None = None) -> dict[str, Pod]:
    """Role -> one of its pods, as the kubelet gets it."""
    own = MPIRUN if target == "train-job" else {}
    return {pod.role: pod for pod in pods(on(target, own | run, cluster).manifests)}


@pytest.mark.parametrize(("target", "lead", "ranks"), MPI_AND_RAY)
def test_one_per_node_is_of_pods_that_hold_ranks(target: str, lead: str, ranks: str) -> None:
    made = pods_of(target, {"placement": {"one_per_node": True}})
    assert set(made) == {lead, ranks}
    assert "affinity" not in made[lead].spec, "it may be beside them"
    (term,) = made[ranks].spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    instance, (wanted,) = term["labelSelector"]["matchLabels"], term["labelSelector"]["matchExpressions"]
    assert {name for name, pod in made.items() if pod.labels[wanted["key"]] in wanted["values"]} == {ranks}
    assert all(instance.items() <= pod.labels.items() for pod in made.values())


@pytest.mark.parametrize("target", ["indexed-job", "pytorch-job"])
def test_where_all_hold_ranks_one_per_node_is_of_the_whole_run(target: str) -> None:
    for pod in pods_of(target, {"placement": {"one_per_node": True}}).values():
        (term,) = pod.spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert set(term["labelSelector"]) == {"matchLabels"}


@pytest.mark.parametrize(("target", "lead", "ranks"), MPI_AND_RAY)
def test_kueue_looks_for_a_place_of_ranks_alone(target: str, lead: str, ranks: str) -> None:
    made = pods_of(target, {"placement": {"together": "rack"}, "queue": "gold"}, KUEUE | RACK)
    assert {name for name, pod in made.items() if any("topology" in key for key in pod.annotations)} == {ranks}
    assert lead in made


@pytest.mark.parametrize(
    ("target", "run", "nodes", "said"),
    [
        ("indexed-job", {}, None, ""),
        ("indexed-job", {"host_network": True}, 2, "2 nodes (pods would want the same ports of a node)"),
        ("mpi-job", {"placement": {"one_per_node": True}}, 2, "2 nodes (as asked, for pods that hold ranks)"),
        ("mpi-job", {"host_network": True}, 3, "3 nodes (pods would want the same ports of a node, and 1 of them is for the"),
        ("mpi-job", {"host_network": True, "placement": {"one_per_node": True}}, 3, "3 nodes"),
    ],
)  # fmt: skip
def test_the_plan_says_how_many_nodes_pods_apart_take(target: str, run: Data, nodes: int | None, said: str) -> None:
    result = on(target, run)
    rows = dict(plan_rows(result))
    assert (result.plan.placement and result.plan.placement.nodes) == nodes
    assert rows.get("placement", "").startswith(f"one pod a node, so {said}" if said else "")
    apart = [pod for pod in pods(result.manifests) if "podAntiAffinity" in pod.spec.get("affinity", {})]
    assert len(apart) == (nodes or 0)


def test_without_a_wish_there_is_no_affinity() -> None:
    assert not list(keys(on("indexed-job", None, RACK), "affinity"))


def test_on_the_nodes_network_pods_of_a_run_are_apart_and_may_be_near() -> None:
    result = on("indexed-job", {"host_network": True, "placement": {"together": "rack", "required": True}}, RACK)
    ((_, affinity),) = keys(result, "affinity")
    (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"] == {"matchLabels": {"app.kubernetes.io/instance": result.plan.name}}
    assert affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((_, policy),) = keys(result, "dnsPolicy")
    assert policy == "ClusterFirstWithHostNet"
