"""Queues that nobody reads, gangs that nobody makes, places that are not there."""

from __future__ import annotations

import pytest
from tests.compiler.controllers import pods
from tests.compiler.example import Data, codes, command, compiled, findings
from tests.compiler.targets import CASES, CLUSTER, INSTALLED, OPERATORS, RELEASES, on, profile_for

from trainwright.findings import Finding
from trainwright.operators import TARGETS

KUEUE: Data = {"kueue": {"version": "0.19.2"}, "namespaces": {"training": {"queues": {"gold": {"managed": False}}}}}
VOLCANO: Data = {"scheduling": {"gang": "volcano", "version": "1.15"}}
COSCHEDULING: Data = {"scheduling": {"gang": "coscheduling", "version": "0.33"}}
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
    own = TARGETS[target].kueue
    others = [other.kueue for name, other in TARGETS.items() if name != target and other.kueue]
    assert own not in others, "each has a name of its own"
    there = [] if own else ["TW436"]  # Kueue watches no kind that it has no integration for
    for integrations, expected in ((None, there), ([own or "batch/job"], there), (others, ["TW436"]), ([], ["TW436"])):
        cluster = profile_for(target) | KUEUE | {"kueue": {"version": "0.19.2", "integrations": integrations}}
        run = on(target, queue="gold")
        found = [finding for finding in findings(run, cluster) if finding.code == "TW436"]
        assert [finding.code for finding in found] == expected
        assert all(own is None or own in finding.fix for finding in found)
        assert "TW436" not in codes(run | {"queue": None}, cluster)


@pytest.mark.parametrize("target", TARGETS)
def test_kueue_puts_what_names_no_queue_into_the_default_one(target: str) -> None:
    """Its webhook hears only of the kinds that it watches."""
    own = TARGETS[target].kueue
    there: Data = KUEUE | {"namespaces": {"training": {"queues": {"default": {"managed": False}}}}}
    hears: Data = {"kueue": {"version": "0.15.0", "integrations": [own or "batch/job"]}}
    said = ["TW439"] if own else []
    cases: list[tuple[Data, Data, list[str]]] = [
        ({}, there, said), ({}, there | hears, said), ({"queue": "default"}, there, []), ({}, KUEUE, []),
        ({}, there | {"kueue": None}, []), ({}, there | {"kueue": {"version": "0.19.2", "integrations": []}}, []),
    ]
    for run, cluster, expected in cases:
        found = [finding for finding in findings(on(target, **run), profile_for(target) | cluster) if finding.code == "TW439"]
        assert [finding.code for finding in found] == expected, (run, cluster)
        assert all(finding.where.pointer == "/queue" and "`queue: default`" in finding.fix for finding in found)


def test_the_names_are_those_of_kueues_configuration() -> None:
    """As its example lists them (kubernetes-sigs/kueue, config/components/manager/controller_manager_config.yaml)."""
    assert {name: target.kueue for name, target in TARGETS.items()} == {name: case.kueue for name, case in CASES.items()}


def test_the_queues_that_there_are_are_named() -> None:
    (found,) = findings({"queue": "silver"}, KUEUE)
    assert "gold" in found.fix
    (found,) = findings({"queue": "silver"}, {"kueue": {"version": "0.19.2"}})
    assert found.fix.startswith("add ")


VALUES = (None, "volcano", "scheduler-plugins", "scheduler-plugins-scheduler", "gangs", "other")


def flagged(target: str, gang: str, name: str | None, flag: str | None) -> Data:
    """A profile with a gang scheduler, called so in pods, and an operator with such a flag."""
    scheduling = {"gang": gang, "version": RELEASES[gang], **({"scheduler_name": name} if name else {})}
    operators = {key: dict(value) for key, value in INSTALLED.items()}
    operators[operator_of(target)] |= {"gang_scheduler": flag} if flag else {}
    return CLUSTER | {"scheduling": scheduling, "operators": operators}


def operator_of(target: str) -> str:
    """Of a target without one, another that makes no groups."""
    return CASES[target].operator or "jobset"


def gangs(target: str, cluster: Data, run: Data | None = None) -> list[Finding]:
    """What is said of who makes the group, and of where the pods go."""
    found = findings(on(target, **(run or {})), cluster)
    return [finding for finding in found if finding.code in ("TW430", "TW437")]


@pytest.mark.parametrize(
    ("target", "gang"), [(target, gang) for target, case in CASES.items() for gang in RELEASES if case.gang in (None, gang)]
)
@pytest.mark.parametrize("name", [None, "gangs"])
@pytest.mark.parametrize("together", [True, False])
def test_pods_go_where_the_profile_says_or_a_finding_says_that_they_do_not(
    target: str, gang: str, name: str | None, together: bool
) -> None:
    """By what each operator does with the flag (operators/*/pods.py)."""
    known = name or {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}[gang]
    operator, fine = OPERATORS[operator_of(target)], []
    for flag in VALUES:
        cluster = flagged(target, gang, name, flag)
        if gangs(target, cluster, {"gang": together}):
            continue
        fine.append(flag)
        result = compiled(on(target, gang=together), cluster)
        for pod in pods(result.manifests, {operator_of(target): flag}):
            assert pod.spec.get("schedulerName", known) == known, flag
            key = "scheduling.k8s.io/group-name" if gang == "volcano" else "scheduling.x-k8s.io/pod-group"
            there = pod.annotations if gang == "volcano" else pod.labels
            assert not together or key in there or target == "train-job", flag
    right = "volcano" if gang == "volcano" else known if operator.flag_names_scheduler else "scheduler-plugins"
    kept = not operator.has_gang_flag or (operator.keeps_scheduler and together)
    named = gang == "coscheduling" and operator.flag_names_scheduler
    assert (right in fine) == (not name or kept or named), "some fix the name"
    assert (None in fine) == (not together or not operator.has_gang_flag)


@pytest.mark.parametrize(
    ("target", "gang", "name", "flag", "together", "code", "fix"),
    [
        ("pytorch-job", "volcano", None, None, True, "TW430", "set the flag to volcano "),
        ("pytorch-job", "coscheduling", None, None, True, "TW430", "set the flag to scheduler-plugins-s"),
        ("pytorch-job", "coscheduling", "gangs", "volcano", True, "TW430", "set the flag to gangs "),
        ("pytorch-job", "coscheduling", None, "scheduler-plugins", False, "TW437", "set the flag to scheduler-plugins-s"),
        ("mpi-job", "coscheduling", None, "scheduler-plugins", True, "TW437", "set the flag to scheduler-plugins-s"),
        ("mpi-job", "coscheduling", "gangs", None, True, "TW430", "set the flag to gangs "),
        ("mpi-job", "coscheduling", "gangs", "scheduler-plugins", False, "TW437", "set the flag to gangs "),
        ("mpi-job", "volcano", "gangs", "volcano", True, "TW437", "run the scheduler as volcano "),
        ("mpi-job", "volcano", None, "gangs", True, "TW430", "set the flag to volcano "),
        ("ray-job", "coscheduling", None, "gangs", True, "TW430", "set the flag to scheduler-plugins "),
        ("ray-job", "coscheduling", "gangs", "scheduler-plugins", True, "TW437", "run the scheduler as scheduler-plugins-s"),
        ("ray-job", "volcano", "gangs", "volcano", True, "TW437", "run the scheduler as volcano "),
    ],
)  # fmt: skip
def test_what_to_do_about_a_flag(
    target: str, gang: str, name: str | None, flag: str | None, together: bool, code: str, fix: str
) -> None:
    (finding,) = gangs(target, flagged(target, gang, name, flag), {"gang": together})
    place = f"/operators/{operator_of(target)}"
    assert (finding.code, finding.where.pointer) == (code, place if code == "TW430" else f"{place}/gang_scheduler")
    assert finding.fix.startswith(fix)
    if code == "TW430":
        assert (f"is set to {flag}" if flag else "is not set") in finding.message
        assert ("`gang: false`" in finding.fix) == (flag is None), "the operator sends pods without a gang there too"
        without = gangs(target, flagged(target, gang, name, flag), {"gang": False})
        assert bool(without) == (flag is not None)


@pytest.mark.parametrize(
    ("run", "scheduling", "expected"),
    [
        ({"queue": "gold"}, {"gang": "volcano", "version": "1.15"}, []),
        ({"queue": "gold"}, {"gang": "volcano", "version": "1.15", "with_kueue": True}, ["TW435"]),
        ({"queue": "gold", "gang": False}, {"gang": "volcano", "version": "1.15", "with_kueue": True}, []),
        ({}, {"gang": "volcano", "version": "1.15", "with_kueue": True}, []),
        ({"queue": "gold", "topology": {"nodes": 1}}, {"gang": "volcano", "version": "1.15", "with_kueue": True}, []),
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
        assert ("rack, block" if cluster else "add `topology: {rack: ") in finding.fix


def test_a_queue_and_a_place_that_are_not_there_are_said_at_once() -> None:
    assert codes({"queue": "gold", "placement": {"together": "rack"}}) == ["TW432", "TW434"]


SLICE, SIZE = "kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size"


def annotated(annotations: Data, kind: str = "annotations") -> Data:
    """A run of two pods with an override of their metadata."""
    patch = {"spec": {"template": {"metadata": {kind: annotations}}}}
    return {"overrides": {"objects": [{"target": "indexed-job", "kind": "Job", "patch": patch}]}}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({SLICE: "example.com/rack", SIZE: "2"}, None),
        ({SLICE: "example.com/rack", SIZE: "1"}, None),
        ({"example.com/mine": "yes"}, None),
        ({SLICE: "example.com/rack"}, f"without {SIZE}"),
        ({SIZE: "2"}, f"without {SLICE}"),
        ({SLICE: "example.com/rack", SIZE: "3"}, "the 2 pods of role node into slices of 3"),
        ({SLICE: "example.com/rack", SIZE: "0"}, "slices of 0"),
        ({SLICE: "example.com/rack", SIZE: "two"}, "slices of two"),
    ],
)
def test_slices_by_hand_are_whole(annotations: Data, said: str | None) -> None:
    found = findings(annotated(annotations), KUEUE)
    assert [finding.code for finding in found] == (["TW603"] if said else [])
    assert all(said in finding.message and finding.where.pointer == "/overrides" for finding in found if said)


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"kueue.x-k8s.io/podset-preferred-topology": "example.com/block"}, "use placement"),
        ({"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}, "use placement"),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, "use placement"),
        ({"kueue.x-k8s.io/podset-group-name": "mine"}, "use placement"),
        ({"scheduling.k8s.io/group-name": "mine"}, "use gang"),
        ({"scheduling.volcano.sh/group-name": "mine"}, "use gang"),
        ({"scheduling.volcano.sh/queue-name": "gold"}, "use queue"),
    ],
)
def test_scheduling_by_an_override_is_the_plans(annotations: Data, field: str) -> None:
    """Two requests of a topology, which Kueue refuses, cannot come about; nor a group that nobody makes."""
    for run in ({}, {"queue": "gold", "placement": {"together": "rack"}}):
        (found,) = findings(annotated(annotations) | run, KUEUE | RACK)
        assert (found.code, found.fix.startswith(field)) == ("TW601", True)


def test_labels_of_queues_and_gangs_are_no_overrides_either() -> None:
    for key, field in (("kueue.x-k8s.io/queue-name", "queue"), ("scheduling.x-k8s.io/pod-group", "gang")):
        on_top = {"target": "indexed-job", "kind": "Job", "patch": {"metadata": {"labels": {key: "mine"}}}}
        for run in (annotated({key: "mine"}, "labels"), {"overrides": {"objects": [on_top]}}):
            (found,) = findings(run, KUEUE)
            assert (found.code, found.fix.startswith(f"use {field}")) == ("TW601", True)


def test_the_pods_of_a_runtime_are_pods_too() -> None:
    pod = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "mine"}}}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    patch = {"spec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    override = {"target": "train-job", "kind": "TrainingRuntime", "patch": patch}
    (found,) = findings({"target": "train-job", "overrides": {"objects": [override]}}, CLUSTER)
    assert (found.code, found.fix.startswith("use gang")) == ("TW601", True)


SPOT: Data = {"node_pool": "spot"}
JOB_SET: Data = {"operators": {"jobset": {"version": "0.12"}}}


def delayed(run: Data, cluster: Data) -> list[str]:
    return [finding.fix for finding in findings(run, cluster) if finding.code == "TW455"]


def test_evictions_make_an_index_wait_longer_each_time() -> None:
    """Measured with the Job controller: failures that its policy ignores count for the delay."""
    work = command("torchrun", "train.py")
    (fix,) = delayed(SPOT | work, JOB_SET)
    assert fix.startswith("use target job-set")
    assert delayed(SPOT | work | {"target": "job-set"}, JOB_SET) == []
    assert delayed(work, JOB_SET) == [], "nobody reclaims these nodes"
    assert delayed(SPOT, JOB_SET) == delayed(SPOT | {"target": "job-set"}, JOB_SET), "its Job ignores evictions as well"
    assert delayed(SPOT, {})[0].startswith("accept the wait")


def test_a_flag_makes_a_group_for_a_run_without_a_gang_too() -> None:
    operators = {"training-operator": {"version": "1.9.4", "gang_scheduler": "volcano", "restricted_containers": True}}
    run: Data = {"target": "pytorch-job"}
    volcano = {"gang": "volcano", "version": "1.15.1"}

    def said(more: Data, cluster: Data) -> list[tuple[str, str]]:
        found = findings(run | more, {"operators": operators} | cluster)
        return [(finding.where.pointer, finding.fix) for finding in found if finding.code == "TW438"]

    assert said({}, {"scheduling": volcano}) == []
    ((pointer, fix),) = said({"gang": False}, {"scheduling": volcano})
    assert (pointer, "remove `gang: false`" in fix) == ("/gang", True)
    ((pointer, fix),) = said({}, {})
    assert (pointer, "scheduling.gang of the profile" in fix) == ("/scheduling", True)
    assert said({"topology": {"nodes": 1}}, {}) == [], "a group of one pod waits for nobody"
