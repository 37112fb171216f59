"""Waivers: a reason, a last day, and only for what may be accepted."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from tests.compiler.example import TODAY, codes, compiled, findings

from trainwright.findings import Severity
from trainwright.findings.codes import CODES

TAG = {"image": "registry.example.com/trainwright/trainer:latest"}


def waiver(code: str, expires: date = TODAY) -> dict[str, Any]:
    return {"code": code, "reason": "the registry has no digests yet", "expires": expires.isoformat()}


def test_a_waived_warning_becomes_a_note_with_its_reason() -> None:
    (finding,) = findings(TAG | {"waivers": [waiver("TW305")]})
    assert (finding.code, finding.severity, finding.waived) == ("TW305", Severity.INFO, "the registry has no digests yet")


@pytest.mark.parametrize(("days", "expected"), [(-1, ["TW611", "TW305"]), (0, ["TW305"]), (1, ["TW305"]), (3650, ["TW305"])])
def test_the_last_day_counts(days: int, expected: list[str]) -> None:
    assert codes(TAG | {"waivers": [waiver("TW305", TODAY + timedelta(days))]}) == expected


def test_the_same_run_fails_on_the_day_after() -> None:
    run = TAG | {"waivers": [waiver("TW305")]}
    assert codes(run, today=TODAY) == ["TW305"]
    assert codes(run, today=TODAY + timedelta(1)) == ["TW611", "TW305"]


@pytest.mark.parametrize("code", [code for code, entry in CODES.items() if not entry.waivable] + ["TW999"])
def test_what_cannot_be_waived(code: str) -> None:
    found = findings({"waivers": [waiver(code)]})
    assert [finding.code for finding in found] == ["TW613"]
    assert code in found[0].message


def test_no_error_can_be_waived() -> None:
    assert not [entry.id for entry in CODES.values() if entry.waivable and entry.severity is Severity.ERROR and not entry.milder]
    run = {"env": {"NCCL_ALGO": "Treee", "NCCL_DEBUG": "WARNING"}, "waivers": [waiver("TW413")]}
    severities = {finding.where.pointer: finding.severity for finding in findings(run)}
    assert severities == {"/env/NCCL_ALGO": Severity.ERROR, "/env/NCCL_DEBUG": Severity.INFO}


GUIDE: dict[str, Any] = {"node_pools": {"h100": {"pods": {"env": {"NCCL_TUNER_PLUGIN": "libnccl-tuner.so"}}}}}


def test_what_is_found_in_a_profile_is_accepted_there() -> None:
    (found,) = findings({}, GUIDE)
    assert (found.code, found.where.pointer) == ("TW408", "/node_pools/h100/pods/env/NCCL_TUNER_PLUGIN")
    waived = GUIDE | {"waivers": [waiver("TW408")]}
    (found,) = findings({}, waived)
    assert (found.severity, found.waived) == (Severity.INFO, "the registry has no digests yet")
    own = {finding.where.pointer: finding.waived for finding in findings({"env": {"NCCL_ALGO": "Ring"}}, waived)}
    assert own["/env/NCCL_ALGO"] is None, "a run's own setting is the run's to accept"
    assert codes({}, GUIDE | {"waivers": [waiver("TW408", TODAY - timedelta(1))]}) == ["TW611", "TW408"]
    assert codes({}, {"waivers": [waiver("TW403")]}) == ["TW613"]
    assert codes({}, {"waivers": [waiver("TW408")]}) == [], "another run may need it"


def test_a_waiver_without_a_finding_is_a_warning() -> None:
    found = findings({"waivers": [waiver("TW305")]})
    assert [(finding.code, finding.severity) for finding in found] == [("TW612", Severity.WARNING)]
    assert found[0].where.pointer == "/waivers/0"


def test_each_waiver_is_looked_at_on_its_own() -> None:
    run = TAG | {"waivers": [waiver("TW408"), waiver("TW305"), waiver("TW220")]}
    assert [(finding.code, finding.where.pointer) for finding in findings(run) if finding.code.startswith("TW6")] == [
        ("TW613", "/waivers/2")
    ]


def test_a_waiver_covers_every_finding_of_its_code_and_no_other() -> None:
    run = TAG | {"env": {"NCCL_ALGO": "Ring", "NCCL_NET_GDR_LEVEL": "SYS"}, "waivers": [waiver("TW408")]}
    assert {(finding.code, finding.waived is not None) for finding in findings(run)} == {("TW305", False), ("TW408", True)}


def test_a_waiver_moves_no_name() -> None:
    assert compiled(TAG).plan.name == compiled(TAG | {"waivers": [waiver("TW305")]}).plan.name
