"""``trainwright roll``: accept that runs restart."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, QuietOption, VerboseOption, detail
from trainwright.cli.synth import write


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs that may get a new identity.")],
    project: ProjectOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Accept that runs restart, and write them.

    For runs whose own files did not change: a profile edit or another compiler moved them. A new identity is a new job: Argo CD
    removes the old one and starts the new one. A trainer workload resumes from the same checkpoints; a script or a command has a
    new directory. Runs that are not named stay as they are.
    """
    write(project, detail(quiet, verbose), asked=runs, accepted=runs)
