"""Queues that nobody reads, gangs that nobody makes, places that are not there."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings

from trainwright.target import TARGETS

KUEUE: Data = {"kueue": {"version": "0.19.2"}, "namespaces": {"training": {"queues": {"gold": {"managed": False}}}}}
VOLCANO: Data = {"scheduling": {"gang": "volcano"}}
COSCHEDULING: Data = {"scheduling": {"gang": "coscheduling"}}
OPEN: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
INSTALLED: Data = {
    "operators": {
        "jobset": {"version": "0.12"}, "trainer": {"version": "2.3"}, "training-operator": {"version": "1.9"},
        "mpi-operator": {"version": "0.8"}, "kuberay": {"version": "1.7"},
    },
}  # fmt: skip
CARRIED: dict[str, Data] = {
    "mpi-job": {"topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}},
    "tf-job": {"topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8}, **command("python", "t.py")},
    "xgboost-job": {"topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 1}, **command("python", "t.py")},
    "ray-job": {"topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"}, **command("python", "t.py")},
}
RACK: Data = {"topology": {"rack": {"label": "example.com/rack"}, "block": {"label": "example.com/block"}}}


@pytest.mark.parametrize(
    ("cluster", "queue", "expected"),
    [
        ({}, None, []),
        ({}, "gold", ["TW432"]),
        (COSCHEDULING, "gold", ["TW432"]),
        (VOLCANO, "any-name", []),
        (KUEUE, "gold", []),
        (KUEUE, "silver", ["TW431"]),
        (KUEUE | VOLCANO, "silver", ["TW431"]),
        ({"kueue": {"version": "0.19.2"}}, "gold", ["TW431"]),
    ],
)
def test_a_queue_has_a_reader(cluster: Data, queue: str | None, expected: list[str]) -> None:
    found = findings({"queue": queue} if queue else {}, cluster)
    assert [finding.code for finding in found] == expected
    assert all(finding.where.pointer == "/queue" for finding in found)


@pytest.mark.parametrize(
    ("cluster", "run", "expected"),
    [
        (VOLCANO, {"queue": "gold"}, ["TW432"]),
        (VOLCANO, {"queue": "gold", "topology": {"nodes": 1}}, ["TW432"]),
        (VOLCANO, {}, []),
        (KUEUE, {"queue": "gold"}, []),
        (KUEUE | VOLCANO, {"queue": "gold"}, []),
    ],
)
def test_without_a_gang_volcano_does_not_see_the_queue(cluster: Data, run: Data, expected: list[str]) -> None:
    found = findings(run | {"gang": False}, cluster)
    assert [finding.code for finding in found] == expected
    assert all("`gang: false`" in finding.fix for finding in found)


@pytest.mark.parametrize("target", TARGETS)
def test_kueue_watches_the_kinds_that_it_lists(target: str) -> None:
    others = sorted({other.kueue for other in TARGETS.values()} - {TARGETS[target].kueue})
    assert len(others) == len(TARGETS) - 1, "each has a name of its own"
    for integrations, expected in ((None, []), ([TARGETS[target].kueue], []), (others, ["TW436"]), ([], ["TW436"])):
        cluster = INSTALLED | KUEUE | {"kueue": {"version": "0.19.2", "integrations": integrations}}
        run: Data = {"target": target, "trainer_version": "0.2.0", "queue": "gold", **CARRIED.get(target, {})}
        found = [finding for finding in findings(run, cluster) if finding.code == "TW436"]
        assert [finding.code for finding in found] == expected
        assert all(TARGETS[target].kueue in finding.fix for finding in found)
        assert "TW436" not in codes(run | {"queue": None}, cluster)


def test_the_names_are_those_of_kueues_configuration() -> None:
    """As its example lists them (kubernetes-sigs/kueue, config/components/manager/controller_manager_config.yaml)."""
    assert {target.kueue for target in TARGETS.values()} == {
        "batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob", "trainer.kubeflow.org/trainjob", "kubeflow.org/mpijob",
        "kubeflow.org/tfjob", "kubeflow.org/xgboostjob", "ray.io/rayjob",
    }  # fmt: skip


def test_the_queues_that_there_are_are_named() -> None:
    (found,) = findings({"queue": "silver"}, KUEUE)
    assert "gold" in found.fix
    (found,) = findings({"queue": "silver"}, {"kueue": {"version": "0.19.2"}})
    assert "use one of: none" in found.fix


@pytest.mark.parametrize(
    ("target", "operator", "flag"),
    [
        ("pytorch-job", "training-operator", "scheduler-plugins"), ("pytorch-job", "training-operator", "volcano"),
        ("pytorch-job", "training-operator", None), ("indexed-job", "jobset", None), ("job-set", "jobset", None),
        ("train-job", "trainer", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gang", ["volcano", "coscheduling"])
def test_an_operator_makes_a_gang_by_its_own_flag_alone(target: str, operator: str, flag: str | None, gang: str) -> None:
    """Jobs and JobSets get a group of ours, and a TrainJob's runtime asks for it; only Kubeflow v1 and Ray need the flag."""
    version = {"training-operator": "1.9.4", "jobset": "0.12", "trainer": "2.3"}[operator]
    installed: Data = {"version": version} | ({"gang_scheduler": flag} if flag else {})
    cluster: Data = OPEN | {"scheduling": {"gang": gang}, "operators": {operator: installed}}
    wanted = {"volcano": "volcano", "coscheduling": "scheduler-plugins"}[gang]
    found = findings({"target": target}, cluster)
    if target != "pytorch-job" or flag == wanted:
        assert found == []
        return
    (finding,) = found
    assert (finding.code, finding.where.pointer) == ("TW430", f"/operators/{operator}")
    assert f"set the flag to {wanted}" in finding.fix
    assert "`gang: false`" in finding.fix
    assert (f"is set to {flag}" if flag else "is not set") in finding.message
    assert codes({"target": target, "gang": False}, cluster) == []


@pytest.mark.parametrize(
    ("run", "scheduling", "expected"),
    [
        ({"queue": "gold"}, {"gang": "volcano"}, []),
        ({"queue": "gold"}, {"gang": "volcano", "with_kueue": True}, ["TW435"]),
        ({"queue": "gold", "gang": False}, {"gang": "volcano", "with_kueue": True}, []),
        ({}, {"gang": "volcano", "with_kueue": True}, []),
        ({"queue": "gold", "topology": {"nodes": 1}}, {"gang": "volcano", "with_kueue": True}, []),
    ],
)
def test_two_gates_one_behind_the_other(run: Data, scheduling: Data, expected: list[str]) -> None:
    assert codes(run, KUEUE | {"scheduling": scheduling}) == expected


@pytest.mark.parametrize(
    ("cluster", "together", "expected"),
    [(RACK, "rack", []), (RACK, "block", []), (RACK, "row", ["TW434"]), ({}, "rack", ["TW434"])],
)
def test_a_place_is_one_of_the_profile(cluster: Data, together: str, expected: list[str]) -> None:
    found = findings({"placement": {"together": together}}, cluster)
    assert [finding.code for finding in found] == expected
    for finding in found:
        assert finding.where.pointer == "/placement/together"
        assert ("rack, block" if cluster else "none") in finding.fix


def test_a_queue_and_a_place_that_are_not_there_are_said_at_once() -> None:
    assert codes({"queue": "gold", "placement": {"together": "rack"}}) == ["TW432", "TW434"]
