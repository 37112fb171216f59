"""``trainwright check``: is ``dist/`` what the runs compile to?"""

from __future__ import annotations

from trainwright.cli.session import ProjectOption, fail, open_sources, output, show, today
from trainwright.findings import Severity
from trainwright.project import build_project, compare, demand_lock, last_lock, moved_runs


def command(project: ProjectOption = None) -> None:
    """Say whether dist/ is what the runs compile to.

    Compiles in memory and compares with dist/ and the lock, without Node. Ends with 1 where a run has errors, dist/ is stale,
    incomplete or edited by hand, or a run would restart unasked.
    """
    where, sources = open_sources(project)
    lock = last_lock(where)
    build = build_project(sources, today())
    demand_lock(where, build)
    findings = [*build.findings, *moved_runs(build, lock), *compare(where, build, lock)]
    if any(finding.severity is Severity.ERROR for finding in findings):
        fail(findings)
    show(findings)
    output(f"{len(build.runs)} runs and {len(build.foundations)} foundations are in order")
