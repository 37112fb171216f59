"""What must be installed, in which releases: the edges of what is known, and every way to be outside of them."""

from __future__ import annotations

import pytest
from tests.compiler.compiling import compile_text, written
from tests.compiler.example import CLUSTER, RUN, Data, codes, findings
from tests.compiler.findings.page import overlay
from tests.compiler.targets import CASES, INSTALLED, OPERATORS
from tests.compiler.targets import CLUSTER as EVERYTHING
from tests.compiler.targets import on as run_on

from trainwright.findings import CompileError, Severity
from trainwright.operators import TARGETS


def target_of(operator: str) -> str:
    """One that needs the operator."""
    return next(name for name, case in CASES.items() if case.operator == operator)


def on(operator: str, version: str | None) -> tuple[Data, Data]:
    target = target_of(operator)
    operators: Data = {other.name: INSTALLED[other.name] for other in TARGETS[target].depends_on}
    if version:
        operators[operator] = {"version": version}
    return run_on(target), {"operators": operators, "namespaces": EVERYTHING["namespaces"]}


@pytest.mark.parametrize("operator", OPERATORS)
def test_releases_that_are_known(operator: str) -> None:
    for version, code in OPERATORS[operator].releases.items():
        found = [finding for finding in findings(*on(operator, version)) if finding.code in ("TW313", "TW314", "TW315")]
        assert [finding.code for finding in found] == ([code] if code else []), version
        assert all(finding.where.pointer == f"/operators/{operator}/version" for finding in found)
        assert all(f"{operator} {version} is" in finding.message for finding in found)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_that_is_not_there(operator: str) -> None:
    (found,) = [finding for finding in findings(*on(operator, None)) if finding.code == "TW313"]
    assert found.where.pointer == "/target"
    assert operator in found.message
    assert f"operators: {{{operator}:" in found.fix


@pytest.mark.parametrize(
    ("version", "code"), [(None, "TW313"), ("0.2.0", "TW314"), ("0.8", ""), ("0.13.1", ""), ("0.99.0", "TW315")]
)
def test_a_train_job_depends_on_another_operator(version: str | None, code: str) -> None:
    """Trainer makes a JobSet of it, and no pod."""
    installed = {"trainer": {"version": "2.3"}, **({"jobset": {"version": version}} if version else {})}
    found = findings({"target": "train-job"}, {"operators": installed})
    assert [finding.code for finding in found] == ([code] if code else [])
    assert all("jobset" in finding.message for finding in found)
    assert all(finding.where.pointer == ("/operators/jobset/version" if version else "/target") for finding in found)
    assert codes({"target": "indexed-job"}, {"operators": installed}) == []
    both = findings({"target": "train-job"}, {"operators": {}})
    assert [finding.code for finding in both] == ["TW313", "TW313"]
    assert "TrainJob by the operator trainer needs the operator jobset" in both[1].message


def test_a_default_target_is_the_clusters_matter() -> None:
    """The run did not ask for it, so the line to look at is the one that names the cluster."""
    (found,) = findings(cluster={"default_target": "job-set"})
    assert (found.code, found.where.pointer) == ("TW313", "/cluster")
    assert codes({"target": "indexed-job"}, {"default_target": "job-set"}) == [], "a Job needs nothing"


def test_places_are_lines_of_the_profile_and_of_the_run() -> None:
    target, run = on("jobset", "0.7.0")[0], overlay(CLUSTER, on("jobset", "0.7.0")[1])
    text = written(run)
    with pytest.raises(CompileError) as caught:
        compile_text(text, written(overlay(RUN, target)))
    (found,) = [finding for finding in caught.value.findings if finding.severity is Severity.ERROR]
    assert found.where.line is not None
    assert text.split("\n")[found.where.line - 1].strip() == '"version": "0.7.0"'


QUEUES: Data = {"training": {"queues": {"gold": {"managed": False}}}}


@pytest.mark.parametrize(
    ("version", "code"), [("0.14.9", "TW314"), ("0.15", ""), ("0.19.9", ""), ("0.20.0", "TW315"), ("1.0", "TW315")]
)
def test_kueue_is_asked_for_by_runs_in_a_queue_alone(version: str, code: str) -> None:
    cluster = {"kueue": {"version": version}, "namespaces": QUEUES}
    assert codes({"queue": "gold"}, cluster) == ([code] if code else [])
    assert codes({}, cluster) == []


@pytest.mark.parametrize(
    ("gang", "version", "code"),
    [
        ("volcano", "1.7.9", "TW314"), ("volcano", "1.8.0", ""), ("volcano", "1.15.9", ""), ("volcano", "1.16", "TW315"),
        ("coscheduling", "0.26.7", "TW314"), ("coscheduling", "0.27", ""), ("coscheduling", "0.33.5", ""),
        ("coscheduling", "0.34.0", "TW315"), ("volcano", None, "TW316"), ("coscheduling", None, "TW316"),
    ],
)  # fmt: skip
def test_a_gang_scheduler_is_asked_for_by_gangs_alone(gang: str, version: str | None, code: str) -> None:
    cluster = {"scheduling": {"gang": gang, **({"version": version} if version else {})}}
    assert codes({}, cluster) == ([code] if code else [])
    assert codes({"gang": False}, cluster) == []
    assert codes({"topology": {"nodes": 1}}, cluster) == [], "one pod is no gang"


@pytest.mark.parametrize(
    ("kueue", "trainer", "expected"),
    [("0.16.9", "2.1.0", []), ("0.17.0", "2.1.0", ["TW433"]), ("0.19", "2.1.9", ["TW433"]), ("0.17.0", "2.2.0", [])],
)
def test_a_kueue_that_admits_no_job_of_an_old_trainer(kueue: str, trainer: str, expected: list[str]) -> None:
    cluster = {
        "operators": {"trainer": {"version": trainer}, "jobset": {"version": "0.12"}},
        "kueue": {"version": kueue},
        "namespaces": QUEUES,
    }
    assert codes({"target": "train-job", "queue": "gold"}, cluster) == expected
    assert codes({"target": "train-job"}, cluster) == [], "without a queue Kueue has no say"
    assert codes({"target": "job-set", "queue": "gold"}, cluster) == [], "other kinds do not need Trainer"


@pytest.mark.parametrize(
    ("target", "operator", "version", "expected"),
    [
        ("pytorch-job", "training-operator", "1.8.1", ["TW433"]), ("pytorch-job", "training-operator", "1.9.0", []),
        ("mpi-job", "mpi-operator", "0.5.0", ["TW433"]), ("mpi-job", "mpi-operator", "0.6", []),
    ],
)  # fmt: skip
def test_an_operator_that_leaves_no_run_to_kueue(target: str, operator: str, version: str, expected: list[str]) -> None:
    queues = {"gold": {"managed": False, "multikueue": True}, "here": {"managed": False}}
    cluster = {
        "operators": {operator: {"version": version}}, "kueue": {"version": "0.19"},
        "namespaces": {"training": {"pod_security": "privileged", "queues": queues}},
    }  # fmt: skip
    assert codes(run_on(target, queue="gold"), cluster) == (expected or ["TW464"])
    assert codes(run_on(target, queue="here"), cluster) == []


def test_everything_that_is_out_of_date_is_said_at_once() -> None:
    cluster = {
        "operators": {"jobset": {"version": "0.1"}}, "kueue": {"version": "0.1"}, "namespaces": QUEUES,
        "scheduling": {"gang": "coscheduling", "version": "0.1", "with_kueue": True},
    }  # fmt: skip
    found = findings({"target": "job-set", "queue": "gold"}, cluster)
    assert [finding.where.pointer for finding in found if finding.code == "TW314"] == [
        "/operators/jobset/version", "/kueue/version", "/scheduling/version",
    ]  # fmt: skip
