"""``trainwright migrate``: from the lock of an older release to records."""

from __future__ import annotations

from trainwright.cli.session import ProjectOption, open_sources, output, show, stop, today, watched
from trainwright.project.build import build_project
from trainwright.project.migrate import migrate


def command(project: ProjectOption = None) -> None:
    """Replace charts/trainwright.lock, which older releases wrote, by a record for each run in charts/lock/.

    No identity moves, and dist/ stays as it is. `trainwright synth` then completes the records with what the lock did not know.
    """
    where, sources = open_sources(project)
    if not where.old_lock.exists():
        stop(f"there is no {where.shown(where.old_lock)}: nothing to migrate")
    build = build_project(sources, today(), watch=watched)
    written = migrate(where, build)
    show(build.findings)
    output(f"{len(written)} records in {where.shown(where.records)}/; {where.shown(where.old_lock)} is gone")
