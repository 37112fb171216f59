"""Waivers: findings that a team accepts, with a reason and until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from trainwright.cluster import Cluster
from trainwright.findings import Finding, Severity, Where
from trainwright.findings.codes import CODES, found
from trainwright.findings.context import Context
from trainwright.findings.locate import Locator
from trainwright.run import Run, Waiver


def waive(findings: Iterable[Finding], context: Context) -> list[Finding]:
    """Findings covered by a waiver that has not expired become notes that carry its reason; errors are never covered. A waiver of
    the profile covers what is found there, and one of the run everything.
    """
    of_run, of_profile = (_reasons(stated.waivers, context.today) for stated in (context.run, context.cluster))

    def reason(finding: Finding) -> str | None:
        if finding.severity is Severity.ERROR or not (entry := CODES.get(finding.code)) or not entry.waivable:
            return None
        there = of_profile.get(finding.code) if _in_profile(finding.where, context.locate) else None
        return there or of_run.get(finding.code)

    covered = ((finding, reason(finding)) for finding in findings)
    return [one._replace(severity=Severity.INFO, waived=why) if why else one for one, why in covered]


def _reasons(waivers: Sequence[Waiver], today: date) -> dict[str, str]:
    return {waiver.code: waiver.reason for waiver in waivers if waiver.expires >= today}


def _in_profile(where: Where, locate: Locator) -> bool:
    """By its file; of what is written in Python the pointer alone can say it."""
    if locate.run_file != locate.cluster_file:
        return where.file == locate.cluster_file
    return where.pointer.split("/")[1:2] in [[name] for name in Cluster.model_fields.keys() - Run.model_fields.keys()]


def check_waivers(context: Context) -> list[Finding]:
    """Waivers that cannot work, of the run and of the profile."""
    run, cluster, locate = context.run, context.cluster, context.locate
    return [
        *_check(run.waivers, context.today, [locate.run(f"/waivers/{number}") for number in range(len(run.waivers))]),
        *_check(cluster.waivers, context.today, [locate.cluster(f"/waivers/{number}") for number in range(len(cluster.waivers))]),
    ]


def _check(waivers: Sequence[Waiver], today: date, places: Sequence[Where]) -> list[Finding]:
    """Those that have expired, of a code that does not exist, or of a finding that nothing may cover."""
    findings = []
    for waiver, where in zip(waivers, places, strict=True):
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
