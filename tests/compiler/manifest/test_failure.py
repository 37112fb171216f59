"""What a Job does with a failed pod, for every code that a trainer can end with."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from pydantic import ValidationError
from tests.compiler.example import Data, command, compiled, findings, script
from tests.compiler.objects import the

from trainwright.run import ExitCodes
from trainwright_trainer.contract import IN_PLACE, Disposition, ExitCode, codes_with

JOBSET: Data = {"operators": {"jobset": {"version": "0.12"}, "trainer": {"version": "2.3"}}}


def rules(target: str, run: Data) -> list[Data]:
    result = compiled({"target": target, **run}, JOBSET)
    kind, *way = {
        "indexed-job": ("Job", "spec"),
        "job-set": ("JobSet", "spec", "replicatedJobs", 0, "template", "spec"),
        "train-job": ("TrainingRuntime", "spec", "template", "spec", "replicatedJobs", 0, "template", "spec"),
    }[target]
    node: Any = the(result, str(kind))
    for key in way:
        node = node[key]
    found: list[Data] = node["podFailurePolicy"]["rules"]
    return found


def action(policy: list[Data], code: int, *, evicted: bool = False) -> str:
    """The first match wins; a failure that no rule matches counts (KEP-3329)."""
    for rule in policy:
        codes = rule.get("onExitCodes")
        if codes and codes["operator"] == "In" and code in codes["values"]:
            return str(rule["action"])
        if evicted and {"type": "DisruptionTarget", "status": "True"} in rule.get("onPodConditions", []):
            return str(rule["action"])
    return "Count"


EXPECTED = {Disposition.PERMANENT: "FailJob", Disposition.IGNORED: "Ignore"}


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "train-job"])
@pytest.mark.parametrize("work", [{}, script("python", "train.py")], ids=["trainer", "script"])
@pytest.mark.parametrize(("recovery", "but"), [("whole-job", IN_PLACE), ("in-place", ())])
def test_every_code_of_the_table_is_acted_on(recovery: str, but: Container[ExitCode], target: str, work: Data) -> None:
    policy = rules(target, {"recovery": recovery, **work})
    for disposition in Disposition:
        for code in codes_with(disposition, but):
            assert action(policy, code) == EXPECTED.get(disposition, "Count"), code
    assert action(policy, 137) == "Count", "a killed container is nobody's plan"


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "train-job"])
def test_an_evicted_pod_costs_nothing_unless_it_said_that_it_would_fail_again(target: str) -> None:
    policy = rules(target, {})
    assert action(policy, 143, evicted=True) == "Ignore"
    assert action(policy, codes_with(Disposition.PERMANENT)[0], evicted=True) == "FailJob"


@pytest.mark.parametrize(("target", "evicted"), [("indexed-job", "Ignore"), ("job-set", "FailJob"), ("train-job", "FailJob")])
def test_of_a_command_no_code_is_read(target: str, evicted: str) -> None:
    policy = rules(target, command("train"))
    assert {action(policy, code) for code in range(1, 256)} == {"Count"}
    assert action(policy, 1, evicted=True) == evicted, "below a JobSet a pod that comes back alone would wait for its old peers"


@pytest.mark.parametrize("target", ["job-set", "train-job"])
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({}, ("permanent", "FailJobSet")),
        (script("python", "train.py"), ("permanent", "FailJobSet")),
        (command("train"), ("disrupted", "RestartJobSetAndIgnoreMaxRestarts")),
    ],
    ids=["trainer", "script", "command"],
)
def test_a_job_that_failed_by_its_policy_ends_the_set_or_starts_it_again(
    target: str, run: Data, expected: tuple[str, str]
) -> None:
    result = compiled({"target": target, **run}, JOBSET)
    spec = the(result, "JobSet")["spec"] if target == "job-set" else the(result, "TrainingRuntime")["spec"]["template"]["spec"]
    (rule,) = spec["failurePolicy"]["rules"]
    assert (rule["name"], rule["action"]) == expected
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]


@pytest.mark.parametrize(("target", "container"), [("indexed-job", "trainer"), ("job-set", "trainer"), ("train-job", "node")])
def test_codes_are_those_of_the_container_that_trains(target: str, container: str) -> None:
    named = {rule["onExitCodes"]["containerName"] for rule in rules(target, {}) if "onExitCodes" in rule}
    assert named == {container}


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "train-job"])
@pytest.mark.parametrize("work", [{}, command("torchrun", "train.py")], ids=["trainer", "command"])
def test_an_eviction_ends_a_run_that_says_so(target: str, work: Data) -> None:
    run = work | {"restarts": 0, "on_disruption": "fail"}
    assert action(rules(target, run), 143, evicted=True) == "FailJob"
    if target != "indexed-job":
        result = compiled({"target": target, **run}, JOBSET)
        spec: Any = the(result, {"job-set": "JobSet", "train-job": "TrainingRuntime"}[target])["spec"]
        (rule,) = (spec if target == "job-set" else spec["template"]["spec"])["failurePolicy"]["rules"]
        assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


def test_other_controllers_end_it_only_where_nothing_comes_back() -> None:
    operator = {"operators": {"training-operator": {"version": "1.9", "restricted_containers": True}}}
    (finding,) = findings({"target": "pytorch-job", "on_disruption": "fail"}, operator)
    fix = "add `restarts: 0`, so that no pod comes back; or use target indexed-job; or remove on_disruption"
    assert (finding.code, finding.fix) == ("TW456", fix)
    work = {"target": "pytorch-job", "on_disruption": "fail", "restarts": 0}
    job: Any = the(compiled(work, operator), "PyTorchJob")["spec"]
    assert {one["restartPolicy"] for one in job["pytorchReplicaSpecs"].values()} == {"Never"}
    assert job["runPolicy"]["backoffLimit"] == 0


CODES: Data = {**command("torchrun", "train.py"), "exit_codes": [
    {"means": "ignore", "codes": [75]}, {"means": "fail", "codes": [2, "10-12"]},
]}  # fmt: skip


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "train-job"])
def test_a_command_says_what_its_exit_codes_mean(target: str) -> None:
    policy = rules(target, CODES)
    assert [action(policy, code) for code in (75, 2, 10, 11, 12, 13)] == ["Ignore", *["FailJob"] * 4, "Count"]
    assert action(policy, 143, evicted=True) == ("Ignore" if target == "indexed-job" else "Count")


def set_rules(run: Data) -> list[str]:
    spec: Any = the(compiled({"target": "job-set", **run}, JOBSET), "JobSet")["spec"]
    return [rule["action"] for rule in spec["failurePolicy"]["rules"]]


def test_a_job_set_ends_with_a_code_that_ends_and_starts_all_again_with_one_that_is_ignored() -> None:
    """It learns of its Jobs only that a policy failed one: so with codes that end, an eviction counts."""
    assert set_rules(CODES) == ["FailJobSet"]
    only_ignored = {**CODES, "exit_codes": CODES["exit_codes"][:1]}
    assert set_rules(only_ignored) == ["RestartJobSetAndIgnoreMaxRestarts"]
    assert action(rules("job-set", only_ignored), 75) == "FailJob"


def test_a_further_role_ends_a_run_by_codes_of_its_own() -> None:
    one = {"pods": 1, "command": ["serve"], "exit_codes": [{"means": "fail", "all_but": [143]}]}
    spec: Any = the(compiled({"target": "job-set", "roles": {"server": one, "other": {"pods": 1, "command": ["serve"]}}}, JOBSET),
                    "JobSet")["spec"]  # fmt: skip
    assert {rule["action"]: rule["targetReplicatedJobs"] for rule in spec["failurePolicy"]["rules"]} == {
        "FailJobSet": ["node", "server"], "RestartJobSetAndIgnoreMaxRestarts": ["other"],
    }  # fmt: skip
    jobs = {job["name"]: job["template"]["spec"]["podFailurePolicy"]["rules"] for job in spec["replicatedJobs"]}
    assert jobs["server"][-1]["onExitCodes"] == {"containerName": "server", "operator": "NotIn", "values": [143]}
    assert len(jobs["other"]) == 1


def test_other_controllers_know_no_exit_codes() -> None:
    operator = {"operators": {"training-operator": {"version": "1.9", "restricted_containers": True}}}
    (finding,) = [one for one in findings({"target": "pytorch-job", **CODES}, operator) if one.code == "TW456"]
    assert finding.fix == "use target indexed-job; or remove exit_codes"


@pytest.mark.parametrize(("said", "why"), [
    ({"codes": [0]}, "exit codes of a failure are 1 to 255"),
    ({"codes": ["12-10"]}, "a range begins with its lower end"),
    ({"codes": [3, "12-10"]}, "a range begins with its lower end"),
    ({"codes": ["200-300"]}, "exit codes of a failure are 1 to 255"),
    ({}, "it names no codes"),
    ({"codes": [1], "all_but": [2]}, "names them twice"),
])  # fmt: skip
def test_codes_that_no_program_has_are_refused(said: Data, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ExitCodes.model_validate({"means": "fail", **said})


def test_a_supervisor_gives_codes_their_meaning() -> None:
    with pytest.raises(ValidationError, match="the supervisor of a script gives each exit code its meaning"):
        compiled({**script("python", "train.py"), "exit_codes": CODES["exit_codes"]})


def test_a_role_may_name_its_container_where_no_operator_does() -> None:
    policy = rules("indexed-job", {**CODES, "roles": {"node": {"container": "own"}}})
    assert {rule["onExitCodes"]["containerName"] for rule in policy if "onExitCodes" in rule} == {"own"}


@pytest.mark.parametrize(("target", "role"), [("pytorch-job", "worker"), ("train-job", "node")])
def test_an_operator_finds_the_container_by_its_own_name(target: str, role: str) -> None:
    operators = {**JOBSET["operators"], "training-operator": {"version": "1.9", "restricted_containers": True}}
    (finding,) = findings({"target": target, "roles": {role: {"container": "own"}}}, {"operators": operators})
    assert (finding.code, finding.where.pointer, finding.fix) == ("TW327", f"/roles/{role}/container", "remove container")
