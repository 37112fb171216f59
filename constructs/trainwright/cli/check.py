"""``trainwright check``: is ``dist/`` what the runs compile to?"""

from __future__ import annotations

from trainwright.cli.session import ProjectOption, fail, open_sources, output, show, today
from trainwright.findings import Severity
from trainwright.project import build_project, compare, last_records, moved_runs


def command(project: ProjectOption = None) -> None:
    """Say whether dist/ is what the runs compile to.

    Compiles in memory and compares with dist/ and the records, without Node. Ends with 1 where a run has errors, dist/ is stale,
    incomplete or edited by hand, or a run would restart unasked.
    """
    where, sources = open_sources(project)
    records = last_records(where)
    build = build_project(sources, today())
    findings = [*build.findings, *moved_runs(where, build, records), *compare(where, build, records)]
    if any(finding.severity is Severity.ERROR for finding in findings):
        fail(findings)
    show(findings)
    output(f"{len(build.runs)} runs and {len(build.foundations)} foundations are in order")
