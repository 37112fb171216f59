"""The Job controller's decisions, against a small model of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.rehearsal.stage import manifests, of_kind

from trainwright.operators.ending import ContainerEnd, IndexDone, IndexFailed, JobEnd, PodEnd, Replace
from trainwright.operators.job.ended import JobStatus, match

CODES = [0, 1, 10, 42, 137, 202]
EVICTED = frozenset({("DisruptionTarget", "True")})


def job(pods: int = 2, **spec: Any) -> dict[str, Any]:
    found = of_kind(manifests("", pods=pods), "Job")
    found["spec"] = {name: value for name, value in (found["spec"] | spec).items() if value is not None}
    return found


def ended(index: int, code: int, **more: Any) -> PodEnd:
    return PodEnd(f"probe-{index}-abcde", "training", index, (ContainerEnd("main", code),), **more)


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rules": list(rules)}


def on_codes(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes if container is None else {**codes, "containerName": container}}


DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(("rule", "before", "last"), [
    ({"succeededIndexes": "0"}, [1], 0),
    ({"succeededIndexes": "0,2-3"}, [0, 1, 2], 3),
    ({"succeededIndexes": "1-3", "succeededCount": 2}, [0, 3], 1),
    ({"succeededCount": 3}, [0, 3], 1),
])  # fmt: skip
def test_a_success_policy_ends_the_job_early(rule: dict[str, Any], before: list[int], last: int) -> None:
    status = JobStatus(job(pods=5, successPolicy={"rules": [{"succeededCount": 5}, rule]}))
    assert all(isinstance(status.record(ended(index, 0)), IndexDone) for index in before)
    assert status.record(ended(last, 0)) == JobEnd("Complete", "SuccessPolicy", "Matched rules at index 1")


class TestPolicy:
    def test_the_first_rule_that_matches_wins(self) -> None:
        rules = policy(on_codes("Ignore", "In", 42), on_codes("FailJob", "In", 42, 43))
        assert (match(rules, ended(0, 42)).action, match(rules, ended(0, 42)).rule) == ("Ignore", 0)
        assert (match(rules, ended(0, 43)).action, match(rules, ended(0, 43)).rule) == ("FailJob", 1)

    def test_what_no_rule_names_counts(self) -> None:
        assert match(policy(on_codes("FailJob", "In", 42)), ended(0, 1)).action == "Count"
        assert match({}, ended(0, 1)).action == "Count"

    def test_the_message_is_the_controller_s(self) -> None:
        assert match(policy(on_codes("FailJob", "In", 42)), ended(0, 42)).message == (
            "Container main for pod training/probe-0-abcde failed with exit code 42 matching FailJob rule at index 0"
        )

    def test_a_rule_for_another_container_does_not_match(self) -> None:
        assert match(policy(on_codes("FailJob", "In", 42, container="other")), ended(0, 42)).rule is None

    def test_not_in_never_matches_a_container_that_succeeded(self) -> None:
        rules = policy(on_codes("FailJob", "NotIn", 42))
        end = replace(ended(0, 42), containers=(ContainerEnd("main", 42), ContainerEnd("side", 0)))
        assert match(rules, end).rule is None
        assert match(rules, ended(0, 1)).rule == 0

    def test_a_condition_matches_by_type_and_status(self) -> None:
        assert match(policy(DISRUPTED), ended(0, 137, conditions=EVICTED)).action == "Ignore"
        assert match(policy(DISRUPTED), ended(0, 137)).rule is None
        assert "has condition DisruptionTarget matching Ignore rule at index 0" in match(
            policy(DISRUPTED), ended(0, 137, conditions=EVICTED)
        ).message


class TestStatus:
    def test_all_indexes_done(self) -> None:
        status = JobStatus(job())
        assert status.record(ended(0, 0)) == IndexDone()
        assert status.record(ended(1, 0)) == JobEnd("Complete", "CompletionsReached", "Reached expected number of succeeded pods")

    def test_an_index_is_replaced_until_its_retries_are_used_up(self) -> None:
        status = JobStatus(job(backoffLimitPerIndex=1))
        first = status.record(ended(0, 1))
        assert isinstance(first, Replace)
        assert first.failures == 1
        assert status.record(ended(0, 1)) == JobEnd(
            "Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
        )

    def test_ignored_failures_cost_nothing(self) -> None:
        status = JobStatus(job(backoffLimitPerIndex=0))
        for _ in range(20):
            decision = status.record(ended(1, 202))
            assert isinstance(decision, Replace)
            assert decision.failures == 0

    def test_without_a_limit_on_failed_indexes_the_others_go_on(self) -> None:
        status = JobStatus(job(backoffLimitPerIndex=0, maxFailedIndexes=None))
        assert isinstance(status.record(ended(0, 1)), IndexFailed)
        assert status.record(ended(1, 0)) == JobEnd("Failed", "FailedIndexes", "Job has failed indexes")

    def test_a_rule_can_fail_an_index_at_once(self) -> None:
        rules = {"rules": [on_codes("FailIndex", "In", 42)]}
        status = JobStatus(job(backoffLimitPerIndex=5, maxFailedIndexes=1, podFailurePolicy=rules))
        assert isinstance(status.record(ended(0, 42)), IndexFailed)

    @pytest.mark.parametrize(("limit", "failures"), [(None, 7), (0, 1), (2, 3)])
    def test_without_a_limit_per_index_failures_count_for_the_job(self, limit: int | None, failures: int) -> None:
        status = JobStatus(job(backoffLimitPerIndex=None, maxFailedIndexes=None, backoffLimit=limit))
        for _ in range(failures - 1):
            assert isinstance(status.record(ended(0, 1)), Replace)
        end = status.record(ended(1, 1))
        assert isinstance(end, JobEnd)
        assert end.reason == "BackoffLimitExceeded"


@given(
    st.integers(1, 3), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2)),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(CODES)), max_size=30),
)
def test_decisions_agree_with_the_model(pods: int, retries: int, allowed: int | None, story: list[tuple[int, int]]) -> None:
    """The model looks at the whole story each time; the status keeps running counts."""
    status = JobStatus(job(pods, backoffLimitPerIndex=retries, maxFailedIndexes=allowed))
    past: list[tuple[int, int]] = []
    for index, code in story:
        if index >= pods or index in status.finished_indexes:
            continue
        past.append((index, code))
        decision = status.record(ended(index, code))
        assert describe(decision) == model(past, pods, retries, allowed)
        if isinstance(decision, JobEnd):
            return


def describe(decision: object) -> str:
    return decision.reason if isinstance(decision, JobEnd) else type(decision).__name__


def model(past: list[tuple[int, int]], pods: int, retries: int, allowed: int | None) -> str:
    """Rules of the stage: 10 fails the Job, 202 is ignored, every other failure counts."""
    index, code = past[-1]
    counted = Counter(i for i, c in past if c not in (0, 10, 202))
    failed = {i for i, n in counted.items() if n > retries}
    done = {i for i, c in past if c == 0}
    if code == 10:
        return "PodFailurePolicy"
    if allowed is not None and len(failed) > allowed:
        return "MaxFailedIndexesExceeded"
    if len(failed | done) == pods:
        return "FailedIndexes" if failed else "CompletionsReached"
    return "IndexDone" if code == 0 else "IndexFailed" if index in failed else "Replace"
