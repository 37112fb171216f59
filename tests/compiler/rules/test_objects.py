"""Names, labels and values of the finished objects."""

from __future__ import annotations

import pytest
from tests.compiler.example import RUN, TODAY, codes, command, compiled, findings, message

from trainwright.findings.locate import Locator
from trainwright.rules import Context
from trainwright.rules.pods.objects import generated_names


@pytest.mark.parametrize(
    "key",
    [
        "app.kubernetes.io/name",
        "trainwright.dev/team",
        "batch.kubernetes.io/job-name",
        "sidecar.istio.io/inject",
        "argocd.argoproj.io/instance",
        "job-name",
        "controller-uid",
    ],
)
@pytest.mark.parametrize("field", ["labels", "pod_labels"])
def test_labels_of_the_plan_and_of_controllers(field: str, key: str) -> None:
    (finding,) = findings({field: {key: "x"}})
    assert finding.code == "TW410"
    assert finding.where.pointer == f"/{field}/{key.replace('/', '~1')}"


def test_no_run_is_of_the_foundation() -> None:
    assert codes({"labels": {"app.kubernetes.io/component": "foundation"}}) == ["TW410"]


@pytest.mark.parametrize("key", ["project", "example.com/project", "job-name-2", "app.kubernetes.io/part-of"])
def test_labels_of_ones_own(key: str) -> None:
    assert codes({"labels": {key: "x"}, "pod_labels": {key: "y"}}) == []


def test_the_longest_name_fits_what_the_controller_derives() -> None:
    longest = compiled(
        {"run": "n" * 40, "topology": {"nodes": 4096}, "batch": {"micro": 1}, "workload": command("x")["workload"]}
    )
    assert longest.findings[0].code == "TW207"
    assert len(f"{longest.plan.name}-4095") <= 63


def test_a_derived_name_that_is_too_long() -> None:
    result = compiled()
    binding = result.resolution.binding._replace(generated_names=("{name}-launcher-" + "x" * 40,))
    context = Context(result.run, result.cluster, Locator(), TODAY)
    (finding,) = generated_names(context, result.resolution._replace(binding=binding))
    assert finding.code == "TW402"
    assert "shorten the run's name by 3" in finding.fix


@pytest.mark.parametrize("value", ["\x85", "a\u2028b", "a\tb", "=", "<<"])
def test_values_that_readers_of_yaml_see_differently(value: str) -> None:
    text = message({"env": {"PLAIN": value}})
    assert text.startswith("/env/PLAIN/value: Job/spec/template/spec/containers/0/env/")
    assert message(command("python", value)).startswith("/workload/command/1: ")


def test_the_example_is_in_order() -> None:
    assert codes() == []
    assert RUN["run"] == "example"


def test_metadata_of_a_custom_kind_is_what_the_api_server_takes() -> None:
    def patched_with(value: object) -> list[str]:
        patch = {"target": "job-set", "kind": "JobSet", "patch": {"metadata": {"annotations": {"example.com/owner": value}}}}
        return codes({"target": "job-set", "overrides": {"objects": [patch]}}, {"operators": {"jobset": {"version": "0.12.0"}}})

    assert patched_with(1000000) == ["TW603"]
    assert patched_with("1000000") == []
