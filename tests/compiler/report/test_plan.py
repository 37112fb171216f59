"""What another target changes of a plan."""

from __future__ import annotations

import json

from tests.compiler.example import Data, command, compiled, script
from tests.compiler.projects import ROOT, Scratch, assert_ended

from trainwright.report.plan import compiled_data, difference_data, difference_lines, plan_rows

OPERATORS: Data = {"operators": {"jobset": {"version": "0.12"}, "training-operator": {"version": "1.9"}},
                   "namespaces": {"training": {"pod_security": "privileged"}}}  # fmt: skip


def rows(before: Data, after: Data) -> dict[str, str]:
    lines = difference_lines(compiled(before, OPERATORS), compiled(after, OPERATORS))
    return {line[2:16].strip(): line[16:] for line in lines[1:]}


def test_a_plan_beside_itself_differs_in_nothing() -> None:
    said = rows({}, {})
    assert said.keys() == {"objects", "the same"}
    assert said["objects"] == "ConfigMap, Service, Job -> ConfigMap, Service, Job"
    assert {"batch", "rendezvous", "checkpoints", "findings"} <= set(said["the same"].split(", "))


def test_another_target_meets_elsewhere_and_trains_the_same() -> None:
    one, other = compiled({}, OPERATORS), compiled({"target": "job-set"}, OPERATORS)
    assert difference_lines(one, other)[0] == "example: Indexed Job -> JobSet"
    said = rows({}, {"target": "job-set"})
    assert (
        said["rendezvous"]
        == f"static, {one.plan.name}-0.{one.plan.name}:29500 -> static, {other.plan.name}-node-0-0.{other.plan.name}:29500"
    )
    assert said["objects"] == "ConfigMap, Service, Job -> ConfigMap, JobSet"
    same = set(said["the same"].split(", "))
    assert {"batch", "learning rate", "memory", "pod", "checkpoints", "guarantees"} <= same
    assert not same & said.keys()


def test_a_row_that_only_one_of_them_has_is_against_nothing() -> None:
    gang: Data = {"scheduling": {"gang": "volcano", "version": "1.15"}}
    lines = difference_lines(compiled({"gang": False}, gang), compiled({}, gang))
    (row,) = [line for line in lines if line.startswith("  gang ")]
    assert row.removeprefix("  gang ").strip().startswith("nothing -> volcano starts 2 pods together")


def test_a_program_is_told_the_same() -> None:
    gang: Data = {"scheduling": {"gang": "volcano"}}
    one, other = compiled({"gang": False}, OPERATORS), compiled({"target": "job-set"}, OPERATORS | gang)
    data = difference_data(one, other)
    assert data.keys() == {"before", "after", "changed", "same"}
    assert (data["before"], data["after"]) == (compiled_data(one), compiled_data(other))
    assert (data["before"]["target"], data["after"]["target"]) == ("indexed-job", "job-set")
    lines = difference_lines(one, other)
    said = {line[2:16].strip(): line[16:] for line in lines[1:]}
    changed = {label: f"{row['before'] or 'nothing'} -> {row['after'] or 'nothing'}" for label, row in data["changed"].items()}
    assert said == changed | {"the same": ", ".join(data["same"])}
    assert data["changed"]["gang"]["before"] is None


def test_the_command_prints_both_plans_as_json() -> None:
    own, both = (Scratch(ROOT).run("plan", "own-script", "--json", *options) for options in ((), ("--target", "job-set")))
    assert_ended(own, 0)
    assert_ended(both, 0)
    data = json.loads(both.stdout)
    assert data["before"] == json.loads(own.stdout)
    assert (data["before"]["target"], data["after"]["target"]) == ("indexed-job", "job-set")
    assert "rendezvous" in data["changed"]
    assert "pod" in data["same"]
    assert both.stderr == ""


def restarts(run: Data, cluster: Data | None = None) -> str | None:
    return dict(plan_rows(compiled(run, cluster))).get("restarts")


def test_restarts_that_do_not_count_or_count_more_than_once_are_said() -> None:
    operator: Data = {
        "operators": {"training-operator": {"version": "1.9"}}, "namespaces": {"training": {"pod_security": "baseline"}},
    }  # fmt: skip
    topology = {"kind": "ddp", "nodes": 4, "gpus_per_node": 8, "elastic": {"min_nodes": 4, "max_nodes": 64}}
    elastic = {"target": "pytorch-job", "restarts": 100, "topology": topology} | command("torchrun", "train.py")
    assert restarts({}) is None
    uncounted = "none after failures; an evicted pod comes back, uncounted"
    assert restarts({"restarts": 0}) == f"{uncounted}, since on_disruption is not fail"
    assert restarts({"on_disruption": "fail"}) == "3 after failures; the eviction of a pod ends the run"
    assert restarts({"target": "pytorch-job", "restarts": 0}, operator) == uncounted
    lines = dict(plan_rows(compiled(elastic, operator)))
    assert "deletes the others" in lines["end"], "nobody but the command itself sees to it"
    assert "end" not in dict(plan_rows(compiled(elastic | script("train.py"), operator)))
    assert "end" not in dict(plan_rows(compiled(elastic | {"topology": {"nodes": 4}}, operator))), "its master ends it"
    assert restarts(elastic, operator) == "100 of all 64 pods, or 6,400 of one pod at a time: the operator adds up pods"
