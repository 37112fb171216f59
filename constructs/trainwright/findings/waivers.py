"""Waivers: findings that a team accepts, with a reason and until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from trainwright.findings import Finding, Severity
from trainwright.findings.codes import CODES, found
from trainwright.findings.locate import Locator
from trainwright.run import Run


def waive(findings: Iterable[Finding], run: Run, today: date) -> list[Finding]:
    """Findings covered by a waiver that has not expired become notes that carry its reason; errors are never covered."""
    reasons = {waiver.code: waiver.reason for waiver in run.waivers if waiver.expires >= today}
    return [
        finding._replace(severity=Severity.INFO, waived=reasons[finding.code])
        if finding.code in reasons and CODES[finding.code].waivable and finding.severity is not Severity.ERROR
        else finding
        for finding in findings
    ]


def check_waivers(run: Run, today: date, locate: Locator) -> list[Finding]:
    """Waivers that cannot work: expired, of a code that does not exist, or of a finding that nothing may cover."""
    findings = []
    for number, waiver in enumerate(run.waivers):
        where = locate.run(f"/waivers/{number}")
        if waiver.code not in CODES:
            findings.append(
                found("TW613", where, f"there is no finding {waiver.code}", "remove it; `trainwright rules` lists the codes")
            )
        elif not CODES[waiver.code].waivable:
            message = f"{waiver.code} ({CODES[waiver.code].title}) cannot be waived"
            findings.append(found("TW613", where, message, "fix the cause, and remove the waiver"))
        elif waiver.expires < today:
            findings.append(
                found(
                    "TW611",
                    where,
                    f"the waiver of {waiver.code} expired on {waiver.expires}",
                    "fix the cause, or set a new date and say why",
                )
            )
    return findings


def unused_waivers(findings: Sequence[Finding], run: Run, locate: Locator) -> list[Finding]:
    """Waivers that cover nothing any more."""
    used = {finding.code for finding in findings if finding.waived}
    return [
        found("TW612", locate.run(f"/waivers/{number}"), f"nothing to waive: the run has no {waiver.code}", "remove the waiver")
        for number, waiver in enumerate(run.waivers)
        if waiver.code not in used
    ]
