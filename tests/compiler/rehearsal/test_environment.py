"""A container's environment follows the kubelet's rules, and ``$(VAR)`` is expanded as Kubernetes expands it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.rehearsal.stage import JOB, container_of, manifests

from trainwright.command.references import expand, unresolved
from trainwright.operators.job.child_jobs import INDEX_KEY
from trainwright.rehearsal.stated.environment import Environment, container_environment
from trainwright.rehearsal.stated.objects import CannotWorkError, find_objects
from trainwright.rehearsal.stated.pod import create_pod

CALLER = {"TOKEN": "from-the-caller"}


def resolve(env: list[dict[str, Any]], index: int = 1, beside: Sequence[dict[str, Any]] = (), **container: Any) -> Environment:
    found = [*manifests("", pods=3), *beside]
    container_of(found).update(env=env, **container)
    objects = find_objects(found)
    pod = create_pod(objects.slots[index], "127.0.0.3")
    return container_environment(pod.spec.containers[0], pod, objects, CALLER, "container main")


def field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def key(name: str, config_map: str, key: str, optional: bool | None = None) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": config_map, "key": key}
    if optional is not None:
        reference["optional"] = optional
    return {"name": name, "valueFrom": {"configMapKeyRef": reference}}


def secret(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"} | more}}


def test_the_last_of_a_name_wins_and_references_see_what_stands_before() -> None:
    pairs = [("A", "1"), ("B", "$(A)"), ("A", "2"), ("C", "$(A)$(B)")]
    found = resolve([{"name": name, "value": value} for name, value in pairs])
    assert {name: found.values[name] for name in "ABC"} == {"A": "2", "B": "1", "C": "21"}


def test_a_reference_to_what_comes_later_stays_and_is_told() -> None:
    found = resolve([{"name": "A", "value": "$(B)"}, {"name": "B", "value": "1"}])
    assert found.values["A"] == "$(B)"
    assert found.unexpanded == {"A": ["B"]}


def test_the_completion_index_is_appended_so_env_cannot_refer_to_it() -> None:
    found = resolve([{"name": "RANK", "value": "$(JOB_COMPLETION_INDEX)"}], index=2)
    assert found.values["JOB_COMPLETION_INDEX"] == "2"
    assert found.values["RANK"] == "$(JOB_COMPLETION_INDEX)"
    assert list(found.values)[-1] == "JOB_COMPLETION_INDEX"


def test_a_completion_index_of_the_container_s_own_stays() -> None:
    assert resolve([{"name": "JOB_COMPLETION_INDEX", "value": "7"}]).values["JOB_COMPLETION_INDEX"] == "7"


def test_fields_of_the_pod() -> None:
    found = resolve([
        field("IP", "status.podIP"), field("NAME", "metadata.name"), field("NAMESPACE", "metadata.namespace"),
        field("NODE", "spec.nodeName"),
        field("INDEX", f"metadata.labels['{INDEX_KEY}']"), field("SAME", f"metadata.annotations['{INDEX_KEY}']"),
        field("APP", "metadata.labels['app.kubernetes.io/name']"), field("NONE", "metadata.labels['none']"),
        field("JOB", "metadata.labels['batch.kubernetes.io/job-name']"), field("LEGACY", "metadata.labels['job-name']"),
    ]).values
    assert found["NAME"].startswith(f"{JOB}-1-")
    assert len(found["NAME"]) == len(f"{JOB}-1-") + 5
    assert (found["IP"], found["NAMESPACE"], found["NODE"]) == ("127.0.0.3", "training", "rehearsal")
    assert (found["INDEX"], found["SAME"], found["APP"], found["NONE"]) == ("1", "1", "probe", "")
    assert (found["JOB"], found["LEGACY"]) == (JOB, JOB)


def test_a_field_that_the_downward_api_does_not_know() -> None:
    [problem] = resolve([field("X", "spec.hostname")]).problems
    assert "spec.hostname" in problem.message


def test_keys_of_a_config_map() -> None:
    found = resolve([key("NOTE", JOB, "note"), key("NONE", JOB, "none", optional=True), key("GONE", "gone", "x", optional=True)])
    assert found.values["NOTE"] == "/data/x"
    assert "NONE" not in found.values
    assert "GONE" not in found.values
    assert not found.problems


def test_a_missing_key_and_a_missing_config_map_are_told_in_the_kubelet_s_words() -> None:
    messages = [problem.message for problem in resolve([key("A", JOB, "none"), key("B", "gone", "x")]).problems]
    assert messages == [f"couldn't find key none in ConfigMap training/{JOB}", 'configmap "gone" not found']


def test_a_whole_config_map_comes_first_and_with_its_prefix() -> None:
    found = resolve([{"name": "P_note", "value": "own"}], envFrom=[{"prefix": "P_", "configMapRef": {"name": JOB}}])
    assert found.values["P_note"] == "own"
    assert found.values["P_program.py"] == ""


def test_a_missing_whole_config_map() -> None:
    assert 'configmap "gone" not found' in str(resolve([], envFrom=[{"configMapRef": {"name": "gone"}}]).problems[0])
    assert not resolve([], envFrom=[{"configMapRef": {"name": "gone", "optional": True}}]).problems


def test_a_secret_comes_from_the_caller_or_has_a_stand_in() -> None:
    found = resolve([secret("TOKEN"), secret("OTHER"), secret("MAYBE", optional=True)])
    assert found.values["TOKEN"] == CALLER["TOKEN"]
    assert found.from_caller == ["TOKEN"]
    assert "MAYBE" not in found.values
    assert (found.values["OTHER"], found.stand_ins) == ("stand-in", ["OTHER"])
    assert not found.problems


def keys(token: str) -> dict[str, Any]:
    metadata = {"name": "keys", "namespace": "training"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": token}}


def test_a_secret_beside_the_run_has_its_own_values() -> None:
    env, whole = [secret("TOKEN"), secret("OTHER", key="none")], [{"secretRef": {"name": "keys"}}]
    found = resolve(env, beside=[keys("YQ==")], envFrom=whole)
    assert (found.values["TOKEN"], found.values["token"], found.stand_ins) == ("a", "a", [])
    assert [one.message for one in found.problems] == ["couldn't find key none in Secret training/keys"]


@pytest.mark.parametrize("text", ["REPLACE_ME", "<base64>", "$TOKEN", "YQ"])
def test_a_secret_that_holds_no_base64_is_told_with_its_key(text: str) -> None:
    with pytest.raises(CannotWorkError, match=r"Secret keys: data\.token: it is not base64"):
        find_objects([*manifests(""), keys(text)])


def test_base64_may_have_line_ends() -> None:
    assert find_objects([*manifests(""), keys("YW\nI=\n")]).secrets["keys"].values == {"token": "ab"}


def test_a_whole_secret_that_is_not_here_is_left_out() -> None:
    assert resolve([], envFrom=[{"secretRef": {"name": "keys"}}]).stand_ins == ["every variable of Secret keys"]


def test_a_limit_is_counted_in_units_of_the_divisor() -> None:
    def of(resource: str, **more: str) -> dict[str, Any]:
        return {"name": resource, "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}

    limits = {"limits": {"cpu": "1500m", "memory": "2Gi"}}
    found = resolve([of("limits.cpu"), of("limits.memory", divisor="1Mi"), of("requests.cpu")], resources=limits).values
    assert (found["limits.cpu"], found["limits.memory"], found["requests.cpu"]) == ("2", "2048", "0")


VALUES = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(A)"),
        ("[$(EMPTY)]", "[]"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A)$", "1$"),
    ],
)
def test_what_becomes_of_a_text(text: str, expected: str) -> None:
    assert expand(text, VALUES) == expected


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert expand(text, VALUES) == text


@given(st.text(alphabet="$()AM x"))
def test_it_does_what_the_reference_algorithm_does(text: str) -> None:
    assert expand(text, VALUES) == reference(text)


def test_references_that_stay_are_named() -> None:
    assert unresolved("$(A) $(LATER) $$(ESCAPED)", VALUES) == ["LATER"]


def reference(text: str) -> str:
    """A character-wise transcription of third_party/forked/golang/expansion."""
    result, cursor = "", 0
    while cursor < len(text):
        if text[cursor] != "$" or cursor + 1 == len(text):
            result += text[cursor]
            cursor += 1
        elif text[cursor + 1] == "$":
            result += "$"
            cursor += 2
        elif text[cursor + 1] == "(" and ")" in text[cursor + 2 :]:
            end = text.index(")", cursor + 2)
            name = text[cursor + 2 : end]
            result += VALUES.get(name, f"$({name})")
            cursor = end + 1
        else:
            result += text[cursor : cursor + 2]
            cursor += 2
    return result
