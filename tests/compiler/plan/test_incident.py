"""What an eviction costs on each target, by the Job controller's formula; and that nothing makes it cost more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.compiler.example import Data, command, compiled, findings, script
from tests.compiler.targets import CASES, on, profile_for

from trainwright.compile import CompiledRun
from trainwright.operators.ending import ContainerEnd, JobEnd, PodEnd, Replace
from trainwright.operators.job.ended import JobStatus
from trainwright.plan.incident import delay
from trainwright.report.plan import plan_lines

OPERATORS: Data = {
    "operators": {
        "jobset": {"version": "0.12"}, "trainer": {"version": "2.3"}, "mpi-operator": {"version": "0.8"},
        "training-operator": {"version": "1.9", "restricted_containers": True},
    },
}  # fmt: skip
RUNS: dict[str, Data] = {
    "ddp": {"topology": {"nodes": 4}},
    "zero": {"topology": {"kind": "zero3", "engine": "fsdp2", "nodes": 3, "gpus_per_node": 8}},
    "script": {"topology": {"nodes": 8}, **script("python", "train.py")},
    "command": {"topology": {"nodes": 4}, **command("torchrun", "train.py")},
    "ends": {"topology": {"nodes": 2}, "restarts": 0, "on_disruption": "fail"},
    "further": {
        "topology": {"nodes": 2},
        "roles": {"eval": {"pods": 1, "command": ["eval"], "resources": {"cpu": 1, "memory": "1Gi"}}},
    },
}


def test_the_formula_is_what_was_measured() -> None:
    """The nth loss of an index; and one incident on N pods of a Job that counts all of them."""
    assert [delay(n) for n in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert {pods: delay(pods) for pods in (2, 4, 8)} == {2: 20, 4: 80, 8: 600}
    assert [delay(2 * incidents) for incidents in (1, 2, 3)] == [20, 80, 320]
    assert delay(10**6) == 600


def jobs(value: object) -> Iterator[Mapping[str, Any]]:
    """Every spec of a Job, wherever it is."""
    if isinstance(value, Mapping):
        if "podFailurePolicy" in value:
            yield value
        for below in value.values():
            yield from jobs(below)
    elif isinstance(value, list):
        for below in value:
            yield from jobs(below)


def ignores(job: Mapping[str, Any]) -> bool:
    return any(rule["action"] == "Ignore" for rule in job["podFailurePolicy"]["rules"])


ALONE, AFTER = "that pod alone comes back", "10 s, then 20, 40, 80, 160, 320, 600"
WHOLE: Data = {"recovery": "whole-job"}
SUPERVISED = ("ddp", "zero", "script", "further")


def made(name: str, target: str, stated: Data | None = None) -> CompiledRun:
    return compiled(RUNS[name] | {"target": target} | (stated or {}), OPERATORS)


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "train-job"])
@pytest.mark.parametrize("name", RUNS)
def test_no_job_that_ignores_failures_counts_them_for_all_of_its_pods(name: str, target: str) -> None:
    if target == "indexed-job" and name == "further":
        return  # a Job has no further roles
    run = made(name, target)
    found = list(jobs([*run.manifests]))
    assert found
    for job in found:
        assert ("backoffLimit" in job) != ("backoffLimitPerIndex" in job)
        assert not ignores(job) or "backoffLimit" not in job
        if target != "indexed-job" and ignores(job):
            limit = run.resolution.run.restarts if run.resolution.in_place else 0
            assert (job["backoffLimitPerIndex"], job["maxFailedIndexes"]) == (limit, 0)


@pytest.mark.parametrize("target", ["job-set", "train-job"])
@pytest.mark.parametrize("name", SUPERVISED)
def test_a_set_whose_pods_leave_together_gives_no_index_a_retry(name: str, target: str) -> None:
    found = [job for job in jobs([*made(name, target, WHOLE).manifests]) if ignores(job)]
    assert found
    assert {(job["backoffLimitPerIndex"], job["maxFailedIndexes"]) for job in found} == {(0, 0)}


def test_the_jobs_of_a_launcher_and_its_workers_too() -> None:
    run = {"topology": {"kind": "ddp", "nodes": 4, "mpi": "openmpi"}, "target": "train-job"}
    launcher_and_workers = list(jobs([*compiled(run, OPERATORS).manifests]))
    assert len(launcher_and_workers) == 2
    assert all(not ignores(job) or job.get("backoffLimitPerIndex") == 0 for job in launcher_and_workers)
    assert any(ignores(job) for job in launcher_and_workers)


@pytest.mark.parametrize("target", ["job-set", "train-job"])
@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([(200, False)], "MaxFailedIndexesExceeded"),
        ([(137, False)], "MaxFailedIndexesExceeded"),
        ([(11, False)], "PodFailurePolicy"),
        ([(202, False), (202, False), (11, False)], "PodFailurePolicy"),
        ([(202, False), (200, False)], "MaxFailedIndexesExceeded"),
        ([(143, True), (202, False), (202, False), (202, False)], None),
    ],
)
def test_what_counts_fails_the_job_at_once_and_an_eviction_never(
    target: str, codes: list[tuple[int, bool]], expected: str | None
) -> None:
    """The JobSet starts again where its Job failed by its limit, and ends where it failed by its policy."""
    (spec,) = jobs([*made("ddp", target, WHOLE).manifests])
    pods = {"completions": 4, "parallelism": 4, "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
    status = JobStatus({"metadata": {"name": "a", "namespace": "b"}, "spec": {**spec, **pods}})
    container = "trainer" if target == "job-set" else "node"
    decision = None
    for index, (code, evicted) in enumerate(codes):
        conditions = frozenset({("DisruptionTarget", "True")}) if evicted else frozenset()
        decision = status.record(PodEnd(f"a-{index}", "b", index, (ContainerEnd(container, code),), conditions))
    if expected is None:
        assert isinstance(decision, Replace)
    else:
        assert isinstance(decision, JobEnd)
        assert decision.reason == expected


@pytest.mark.parametrize(
    ("target", "name", "stated", "expected"),
    [
        ("indexed-job", "ddp", {}, f"{ALONE} after {AFTER} s where the same pod is lost again; the others stay"),
        ("train-job", "script", {}, f"{ALONE} after {AFTER} s where the same pod is lost again; the others stay"),
        ("pytorch-job", "zero", {}, f"{ALONE} at once; the others stay"),
        ("indexed-job", "ddp", WHOLE, f"all pods leave together and come back after {AFTER} s"),
        ("job-set", "ddp", WHOLE, f"all pods leave together and come back after {AFTER} s"),
        ("train-job", "script", WHOLE, f"all pods leave together and come back after {AFTER} s"),
        ("pytorch-job", "zero", WHOLE, "each pod that has ended comes back at once"),
        ("indexed-job", "command", {}, f"{ALONE} after 10 s"),
        ("job-set", "command", {}, "all pods start again, about 2 s later"),
        ("job-set", "ends", {}, ""),
    ],
)
def test_the_plan_says_what_an_incident_costs(target: str, name: str, stated: Data, expected: str) -> None:
    rows = [line.strip() for line in plan_lines(made(name, target, stated)) if line.strip().startswith("lost pods")]
    (row, *_) = rows or [""]
    assert row.removeprefix("lost pods").strip().startswith(expected)
    assert bool(row) == bool(expected)


@pytest.mark.parametrize("target", CASES)
def test_every_target_but_ray_says_it(target: str) -> None:
    result = compiled(on(target), profile_for(target))
    assert any(line.strip().startswith("lost pods") for line in plan_lines(result)) == (target != "ray-job")


def instead(kubernetes: str, run: Data, cluster: Data = OPERATORS) -> str:
    (fix,) = [finding.fix for finding in findings(run, cluster | {"kubernetes": kubernetes}) if finding.code == "TW307"]
    return fix


def test_an_old_cluster_is_told_what_it_has_and_what_an_incident_costs_there() -> None:
    fix = instead("1.31", RUNS["ddp"])
    assert fix.startswith(f"use target pytorch-job ({ALONE} at once; the others stay")
    assert f"job-set ({ALONE} after {AFTER} s" in fix
    whole = instead("1.31", RUNS["ddp"] | WHOLE)
    assert whole.startswith("use target pytorch-job (each pod that has ended comes back at once) or job-set (all pods leave")
    assert fix.endswith("or upgrade the cluster to 1.33 or newer")
    older = instead("1.30", RUNS["ddp"])
    assert "pytorch-job" in older
    assert "job-set" not in older, "it needs 1.31"
    assert instead("1.31", RUNS["ddp"], {}) == "upgrade the cluster to 1.33 or newer"
    for target in ("pytorch-job", "job-set", "train-job"):
        found = findings(RUNS["ddp"] | {"target": target}, OPERATORS | {"kubernetes": "1.31"})
        assert "TW307" not in [finding.code for finding in found]


def test_on_nodes_that_are_taken_back_a_target_that_keeps_an_evicted_worker_is_none_to_recommend() -> None:
    run = {"topology": {"kind": "ddp", "nodes": 4, "mpi": "openmpi"}, "node_pool": "spot", "target": "mpi-job"}
    (kept,) = [one for one in findings(run, OPERATORS) if one.code == "TW455"]
    assert "an evicted worker is not made again" in kept.message
    (waits,) = [one for one in findings(run | {"target": "train-job"}, OPERATORS) if one.code == "TW455"]
    assert "mpi-job" not in kept.fix + waits.fix
