"""A synth that kills itself with SIGKILL at its n-th step on the disk. Started as a program: PROJECT N."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.compiler.compiling import TODAY

from trainwright.cdk8s import write_files
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.project.synth import synth

STEPS = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""Audit events of Python for what changes a folder; ``os.replace`` raises ``os.rename``."""


def main(project: Project, last: int) -> None:
    build = build_project(load_sources(project), TODAY)
    steps = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in STEPS and str(project.root) in str(arguments[0]):
            steps += 1
            if steps > last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    synth(project, build, write_files)


if __name__ == "__main__":
    main(Project(Path(sys.argv[1])), int(sys.argv[2]))
