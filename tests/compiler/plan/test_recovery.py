"""Which runs recover in place: what their objects and their pods are told, and what the plan says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.compiler.example import Data, command, compiled, findings, script
from tests.compiler.plan.test_impatient import NAMES_KAI, QUEUED, kueue
from tests.compiler.plan.test_incident import OPERATORS, jobs
from tests.compiler.targets import on, profile_for
from tests.compiler.test_supervisor import HAS_ONE
from tests.pages import DOCS

from trainwright.compile import CompiledRun
from trainwright.findings import Finding, Severity
from trainwright.handshake import Guarantee
from trainwright.operators import TARGETS, operator
from trainwright.operators.ending import ContainerEnd, Decision, JobEnd, PodEnd, Replace
from trainwright.operators.operator import Around
from trainwright.report.plan import plan_lines
from trainwright_trainer.contract import ExitCode

IN_PLACE: Data = {"recovery": "in-place"}
DDP: Data = {"topology": {"nodes": 4}}
KEPT = ("indexed-job", "job-set", "train-job", "pytorch-job")
EXCLUSIVE: Data = {"operators": {"jobset": {"version": "0.12", "exclusive_placement": True}}}
KAI: Data = {"scheduling": {"staleness_grace": "60s"}}


def made(run: Data, cluster: Data = OPERATORS) -> CompiledRun:
    return compiled(DDP | IN_PLACE | run, cluster)


def lost_pods(run: CompiledRun) -> str:
    (row,) = [line.strip() for line in plan_lines(run) if line.strip().startswith("lost pods")]
    return row.removeprefix("lost pods").strip()


def told(run: CompiledRun) -> tuple[int, float] | None:
    assert run.resolution.spec is not None
    recovery = run.resolution.spec.lifecycle.recovery
    return None if recovery is None else (recovery.restarts, recovery.wait_seconds)


def codes(run: CompiledRun, action: str) -> list[int]:
    (job,) = jobs([*run.manifests])
    return [code for rule in job["podFailurePolicy"]["rules"] if rule["action"] == action
            for code in rule.get("onExitCodes", {"values": []})["values"]]  # fmt: skip


@pytest.mark.parametrize("work", [{}, script("python", "train.py")])
@pytest.mark.parametrize("target", KEPT)
def test_supervisors_are_told_how_often_and_how_long(target: str, work: Data) -> None:
    run = made({"target": target, "restarts": 5, "recovery_wait": "20m", **work})
    assert told(run) == (5, 1200)
    assert "RetriesSpent" not in str(run.manifests)
    if target != "pytorch-job":
        assert ExitCode.RETRIES_SPENT in codes(run, "FailJob")


@pytest.mark.parametrize("target", KEPT)
def test_a_run_that_says_nothing_recovers_in_place_and_a_whole_job_has_nothing_of_it(target: str) -> None:
    said: tuple[Data, ...] = ({"recovery": "whole-job"}, IN_PLACE, {})
    whole, stated, unsaid = (compiled(DDP | {"target": target} | one, OPERATORS) for one in said)
    assert unsaid.manifests == stated.manifests
    assert told(unsaid) == (3, 900)
    assert told(whole) is None
    if target != "pytorch-job":
        assert ExitCode.RETRIES_SPENT not in codes(whole, "FailJob")


@pytest.mark.parametrize("work", [{}, script("python", "train.py"), command("x") | {"supervisor": "brought"}])
@pytest.mark.parametrize("target", KEPT)
def test_the_plan_guarantees_it_where_nobody_is_in_the_way(target: str, work: Data) -> None:
    asked: Data = {"target": target, "topology": {"nodes": 4}, "security": {"user": 1000}, **work}
    whole: Data = {"recovery": "whole-job"}
    for run, cluster, kept in ((IN_PLACE, {}, True), (whole, {}, False), ({}, KAI, False)):
        promised = compiled(asked | run, OPERATORS | HAS_ONE | cluster).plan.guarantees
        assert (Guarantee.IN_PLACE.value in promised) == kept
        assert Guarantee.RESTART_ALL.value in promised


def oldest(target: str) -> Data:
    """A cluster with the oldest releases of all that a target needs."""
    carrier, stated = TARGETS[target], dict(OPERATORS["operators"])
    for one in (carrier.operator, *carrier.depends_on):
        if one:
            stated[one.name] = stated[one.name] | {"version": ".".join(map(str, one.releases.first))}
    return {"operators": stated, "kubernetes": ".".join(map(str, carrier.minimum_kubernetes))}


@pytest.mark.parametrize("target", [*KEPT, "xgboost-job"])
def test_no_supported_release_differs(target: str) -> None:
    """Of operators and of Kubernetes. A pod template alone may be in another place: Trainer 2.0 patches nothing of it."""
    asked, cluster = on(target), oldest(target)
    old, new = compiled(asked, cluster), compiled(asked, OPERATORS)
    assert told(old) == (3, 900)
    assert said_of_it(asked | IN_PLACE, cluster) == []
    of_old, of_new = ([{**job, "template": None} for job in jobs([*one.manifests])] for one in (old, new))
    assert of_old == of_new
    assert bool(of_old) == (target not in ("pytorch-job", "xgboost-job"))


def ends(run: CompiledRun, *codes: int) -> list[Decision | None]:
    """What the controller decides when pod 2 ends with one code after another."""
    (manifest,) = [manifest for manifest in run.manifests if manifest["kind"] == TARGETS[run.plan.target].kind.kind]
    of, ranks = operator.ended(manifest, Around(objects=[*run.manifests])), run.resolution.binding.ranks
    assert of is not None
    owner = f"{run.plan.name}-node-0" if run.plan.target in ("job-set", "train-job") else run.plan.name
    containers = [(ContainerEnd(ranks.container, code),) for code in codes]
    return [of.record(PodEnd(f"{owner}-2", "training", 2, one, role=ranks.name, owner=owner)) for one in containers]


@pytest.mark.parametrize("target", KEPT)
def test_the_controller_replaces_the_pod_that_ended_and_no_other(target: str) -> None:
    """Preempted, out of memory as a container, unhealthy, and again: by the formula, and against the retries of its index."""
    *replaced, last = ends(made({"target": target, "restarts": 2}), 210, 137, 201, ExitCode.RETRIES_SPENT)
    delays = [0, 0, 0] if target == "pytorch-job" else [10, 20, 40]
    assert [decision.seconds for decision in replaced if isinstance(decision, Replace)] == delays
    assert isinstance(last, JobEnd)
    assert last.failed


@pytest.mark.parametrize("target", KEPT)
def test_a_pod_that_spends_its_own_retries_ends_the_run(target: str) -> None:
    """But for the Training Operator, which counts no pod that it makes anew."""
    _, last = ends(made({"target": target, "restarts": 1}), 137, 137)
    assert isinstance(last, Replace if target == "pytorch-job" else JobEnd)
    assert isinstance(last, Replace) or last.failed


def test_a_set_whose_command_nobody_supervises_starts_again_as_a_whole() -> None:
    for target in ("job-set", "train-job"):
        run = compiled(DDP | {"target": target} | command("torchrun", "train.py"), OPERATORS)
        assert run.plan.recovery is None
        (job,) = jobs([*run.manifests])
        assert {key: job[key] for key in job if "Limit" in key or "Failed" in key} == {"backoffLimit": 0}


EACH = "at least 0.067, then 0.13, 0.27, 0.53, 1.1, 2.1, 4 GPU-hours, and 6 at most"


@pytest.mark.parametrize(("target", "said", "cost"), [
    ("indexed-job", "that pod alone comes back after 10 s, then 20, 40, 80, 160, 320, 600 s where the same pod is lost", EACH),
    ("job-set", "that pod alone comes back after 10 s", EACH),
    ("train-job", "that pod alone comes back after 10 s", EACH),
    ("pytorch-job", "that pod alone comes back at once; the others stay, and wait for it, up to 15 min; a rank", "6 GPU-hours"),
])  # fmt: skip
def test_the_plan_says_what_waiting_may_cost(target: str, said: str, cost: str) -> None:
    """24 GPUs for 10, 20, 40, 80, 160, 320 and 600 s, and for 15 min."""
    row = lost_pods(made({"target": target, "topology": {"nodes": 4, "gpus_per_node": 8}}))
    assert row.startswith(said)
    assert row.endswith(f". 24 GPUs that wait {'' if cost == EACH else 'so long '}cost {cost}")


def test_nobody_waits_longer_than_the_run_lets_them() -> None:
    size: Data = {"topology": {"nodes": 4096, "gpus_per_node": 8}, **script("python", "train.py")}
    run: Data = {"target": "indexed-job", "recovery_wait": "3m", **size}
    assert lost_pods(made(run)).endswith("cost at least 91, then 180, 360, 730, 1,500, 1,600, 1,600 GPU-hours, and 1,600 at most")


def test_the_page_says_how_long_the_others_wait() -> None:
    run, page = compiled().run, (DOCS / "gitops.md").read_text(encoding="utf-8")
    section = " ".join(page.partition("\n## What holds a lost pod\n")[2].partition("\n## ")[0].split())
    for key, wait in (("recovery_wait", run.recovery_wait), ("peer_wait", run.peer_wait)):
        assert f"wait up to `{key}`, {wait.seconds // 60} minutes by default" in section


def test_one_pod_waits_for_nobody() -> None:
    assert "wait" not in lost_pods(made({"topology": {"nodes": 1}, "target": "indexed-job"}))


@pytest.mark.parametrize(("run", "cluster", "why", "stated"), [
    ({"topology": {"kind": "ddp", "nodes": 4, "mpi": "openmpi"}, "target": "mpi-job"}, OPERATORS, "an evicted worker stays", ""),
    (on("volcano-job"), profile_for("volcano-job"), "a Volcano Job starts all of its pods again", ""),
    ({"topology": {"elastic": {"min_nodes": 2, "max_nodes": 8}}, "target": "pytorch-job"}, OPERATORS,
     "an elastic run goes on", ""),
    ({"target": "job-set"}, EXCLUSIVE, "JobSet deletes all other pods where that of node 0 comes back in another place",
     "/operators/jobset/exclusive_placement"),
    ({"target": "indexed-job"}, KAI, "KAI evicts the other pods 1 min after one is lost", "/scheduling/staleness_grace"),
    ({"target": "indexed-job", **NAMES_KAI}, OPERATORS, "KAI evicts the other pods 1 min", "/scheduling/staleness_grace"),
    ({"target": "indexed-job", **QUEUED}, kueue(timeout="10m"), "Kueue suspends the whole run",
     "/kueue/wait_for_pods_ready/timeout"),
])  # fmt: skip
def test_what_cannot_stay_is_a_whole_job_and_a_finding(run: Data, cluster: Data, why: str, stated: str) -> None:
    """A run that says nothing hears of it, as a note, where the profile could state something else."""
    asked = DDP | run
    (warning,) = said_of_it(asked | IN_PLACE, cluster)
    assert why in warning.message
    assert warning.severity is Severity.WARNING
    assert told(compiled(asked | IN_PLACE, cluster)) is None
    assert told(compiled(asked, cluster)) is None
    notes = said_of_it(asked, cluster)
    assert [note.severity for note in notes] == ([Severity.INFO] if stated else [])
    assert all(why in note.message and stated in note.fix for note in notes)
    assert said_of_it(asked | {"recovery": "whole-job"}, cluster) == []


def said_of_it(run: Data, cluster: Data) -> list[Finding]:
    return [finding for finding in findings(run, cluster) if finding.code == "TW479"]


@pytest.mark.parametrize(("run", "cluster"), [
    ({"target": "job-set"}, EXCLUSIVE), ({"target": "indexed-job"}, KAI),
    ({"target": "indexed-job", **QUEUED}, kueue(timeout="10m")),
])  # fmt: skip
def test_nobody_evicts_others_of_one_pod(run: Data, cluster: Data) -> None:
    one = {"topology": {"nodes": 1}} | run
    assert told(compiled(one, cluster)) == (3, 900)
    assert said_of_it(one, cluster) == []


def test_the_operator_of_boosting_runs_replaces_one_pod() -> None:
    """As of each kind that is its own (training-operator v1.9, pkg/controller.v1/common/pod.go, ReconcilePods)."""
    boosting = compiled(on("xgboost-job"), profile_for("xgboost-job"))
    assert told(boosting) == (3, 900)
    assert lost_pods(boosting).startswith("that pod alone comes back at once")


@pytest.mark.parametrize("cluster", [KAI, EXCLUSIVE])
def test_who_waits_for_less_long_is_not_evicted(cluster: Mapping[str, Any]) -> None:
    run = made({"target": "indexed-job", "recovery_wait": "60s"}, dict(cluster))
    assert told(run) == (3, 60)


def test_a_command_cannot_recover() -> None:
    found = findings(DDP | IN_PLACE | command("torchrun", "train.py"), OPERATORS)
    assert [finding.message for finding in found if finding.code == "TW207"] == ["workload command does not read recovery"]
