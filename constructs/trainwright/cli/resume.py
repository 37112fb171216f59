"""``trainwright resume``: let a run that waits go on."""

from __future__ import annotations

from trainwright.cli.pause import RunsArgument, set_state
from trainwright.cli.session import ProjectOption


def command(runs: RunsArgument, project: ProjectOption = None) -> None:
    """Remove `state: paused` from runs' files, and say what to commit.

    The objects that come back have the identity that they had, unless something else changed meanwhile, which `synth` says. Our
    trainer goes on from the last checkpoint.
    """
    set_state(runs, project, "active", "Resume")
