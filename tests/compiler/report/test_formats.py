"""Findings for CI: each form is read back, and no text of a finding can break out of it."""

from __future__ import annotations

import json
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.projects import ROOT, Scratch, assert_ended, scratch

from trainwright.findings import Finding, Severity, Where
from trainwright.report.formats import Format, formatted

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FINDINGS = st.lists(st.builds(
    Finding, code=st.just("TW502"), severity=st.sampled_from(Severity), where=st.builds(Where, file=TEXT, line=st.integers(1, 9)),
    message=TEXT, why=TEXT, fix=TEXT, waived=st.none() | TEXT,
), max_size=4)


@given(FINDINGS)
def test_any_text_is_carried_and_breaks_out_of_nothing(findings: list[Finding]) -> None:
    listed = json.loads(formatted(findings, Format.JSON))["findings"]
    assert [one["message"] for one in listed] == [one.message for one in findings]
    (run,) = json.loads(formatted(findings, Format.SARIF))["runs"]
    assert len(run["results"]) == len(findings)
    assert {one["ruleId"] for one in run["results"]} == {one["id"] for one in run["tool"]["driver"]["rules"]}
    suite = fromstring(formatted(findings, Format.JUNIT))  # noqa: S314 it is ours
    assert len(suite.findall("testcase")) == max(len(findings), 1)
    assert len(suite.findall("testcase/failure")) == sum(one.severity is Severity.ERROR for one in findings)
    text = formatted(findings, Format.GITHUB)
    lines = text.replace("\r", "\n").split("\n") if text else []
    assert len(lines) == len(findings)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


@pytest.mark.parametrize("style", [style.value for style in Format if style is not Format.TEXT])
def test_check_in_order_ends_with_0(style: str) -> None:
    assert_ended(Scratch(ROOT).run("check", "--quiet", "--format", style), 0)


def test_check_says_what_is_stale_to_each_reader(tmp_path_factory: pytest.TempPathFactory) -> None:
    here = scratch(tmp_path_factory.mktemp("formats") / "project")
    path = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
    here.edit(path, "completions: 2", "completions: 3")
    said = {}
    for style in ("json", "sarif", "junit", "github"):
        ended = here.run("check", "--quiet", "--format", style)
        assert_ended(ended, 1)
        said[style] = ended.stdout
    assert json.loads(said["json"])["findings"][0]["code"] == "TW503"
    (result,) = json.loads(said["sarif"])["runs"][0]["results"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path
    (failure,) = fromstring(said["junit"]).findall("testcase/failure")  # noqa: S314 it is ours
    assert "edited by hand" in failure.attrib["message"]
    assert said["github"].startswith(f"::error file={path},title=TW503::")


def test_validate_has_the_same_forms(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("validate") / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: 3}\n")
    ended = Scratch(ROOT).run("validate", str(file), "--format", "github")
    assert_ended(ended, 1)
    assert ended.stdout.startswith("::error file=")
