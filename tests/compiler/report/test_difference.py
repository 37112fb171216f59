"""What another target changes of a plan."""

from __future__ import annotations

from tests.compiler.example import Data, compiled

from trainwright.report.difference import difference_lines

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
    gang: Data = {"scheduling": {"gang": "volcano"}}
    lines = difference_lines(compiled({"gang": False}, gang), compiled({}, gang))
    (row,) = [line for line in lines if line.startswith("  gang ")]
    assert row.removeprefix("  gang ").strip().startswith("nothing -> volcano starts 2 pods together")
