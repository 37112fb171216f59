"""``trainwright retire``: end a run."""

from __future__ import annotations

from trainwright.cli.pause import RunsArgument, set_state
from trainwright.cli.session import ProjectOption


def command(runs: RunsArgument, project: ProjectOption = None) -> None:
    """Write `state: done` into runs' files, and say what to commit.

    Their objects leave dist/, which stops their jobs if they still run. Checkpoints and records stay.
    """
    set_state(runs, project, "done", "Retire")
