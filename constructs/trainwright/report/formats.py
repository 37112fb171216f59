"""Findings in the forms that CI shows: JSON, SARIF for code scanning, JUnit for test reports, and GitHub's annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from trainwright.findings import Finding, Severity
from trainwright.findings.codes import CODES
from trainwright.report.finding import to_json


class Format(StrEnum):
    TEXT = "text"
    """For people, on standard error."""
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
"""Of SARIF 2.1.0."""
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
"""Of GitHub's workflow commands."""


def formatted(findings: Sequence[Finding], style: Format) -> str:
    """All findings, waived ones marked as such.

    Raises:
        ValueError: for ``text``, which is written to a terminal elsewhere.
    """
    if style is Format.JSON:
        return json.dumps({"findings": to_json(findings)}, indent=2)
    if style is Format.SARIF:
        return json.dumps(_sarif(findings), indent=2)
    if style is Format.JUNIT:
        return _junit(findings)
    if style is Format.GITHUB:
        return "\n".join(map(_annotation, findings))
    raise ValueError(f"{style} is no format of a file")


_PROJECT = "charts"
"""Where a finding is that no file has: GitHub refuses an upload if one result has no place (github/codeql-action#2459)."""


def _sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """One run of one tool, as SARIF 2.1.0 has it; a waiver is a suppression."""
    rules = {one.code: _rule(one) for one in findings}
    driver = {"name": "trainwright", "version": version("trainwright"), "rules": list(rules.values())}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(one) for one in findings]}],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    known = CODES.get(finding.code)
    return {
        "id": finding.code,
        "shortDescription": {"text": known.title if known else finding.code},
        "fullDescription": {"text": finding.why or finding.code},
    }


def _result(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.where.line or 1, "startColumn": finding.where.column or 1}
    place = {"artifactLocation": {"uri": _uri(finding.where.file or _PROJECT)}, "region": region}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": place}],
    }
    if finding.waived is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.waived}]
    return result


def _uri(path: str) -> str:
    """A URI, as SARIF demands: relative to the project, or of a file on this machine."""
    return ("file://" if path.startswith("/") else "") + quote(path, errors="surrogateescape")


def _junit(findings: Sequence[Finding]) -> str:
    """A case for each finding: errors fail, others are skipped with their words; without any, one case that passes."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # for one format, while every command knows them all

    errors = sum(one.severity is Severity.ERROR for one in findings)
    counts = {"tests": str(max(len(findings), 1)), "failures": str(errors), "skipped": str(len(findings) - errors)}
    suite = Element("testsuite", {"name": "trainwright", **counts})
    for one in findings:
        name = {"classname": _xml(one.where.file or "trainwright"), "name": f"{one.code} {_place(one)}"}
        case = SubElement(suite, "testcase", name)
        kind = "failure" if one.severity is Severity.ERROR else "skipped"
        SubElement(case, kind, {"message": _xml(_message(one))}).text = _xml(one.why)
    if not findings:
        SubElement(suite, "testcase", {"classname": "trainwright", "name": "in order"})
    indent(suite)
    return tostring(suite, encoding="unicode")


def _annotation(finding: Finding) -> str:
    """``::error file=…,line=…,col=…,title=…::message``."""
    where = {"file": finding.where.file, "line": finding.where.line, "col": finding.where.column, "title": finding.code}
    stated = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in where.items() if value)
    return f"::{_COMMANDS[finding.severity]} {stated}::{_escaped(_message(finding))}"


def _message(finding: Finding) -> str:
    return f"{finding.message}; {finding.fix}" if finding.fix else finding.message


def _place(finding: Finding) -> str:
    return _xml(f"{finding.where.line or 1}:{finding.where.column or 1} {finding.where.pointer or ''}".strip())


def _escaped(text: str, more: str = "") -> str:
    """As GitHub unescapes it: a line that ended early would begin a command of its own."""
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)


def _xml(text: str) -> str:
    """Without characters that XML cannot hold, not even escaped."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
