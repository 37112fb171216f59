"""The golden fleet: fixed runs on fixed clusters, compiled as a project."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tests.compiler.compiling import TODAY

from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources

FLEET = Path(__file__).with_name("fleet")
IDENTITIES = FLEET / "identities.json"


@cache
def fleet() -> Build:
    """Every run of the fleet, compiled."""
    return build_project(load_sources(Project(FLEET)), TODAY)


def identities() -> dict[str, dict[str, str]]:
    """Run -> the hash in its objects' names, and the directory of its checkpoints."""
    return {
        name: {
            "hash": built.compiled.identity,
            "checkpoints": built.compiled.plan.checkpoint.directory if built.compiled.plan.checkpoint else "",
        }
        for name, built in fleet().runs.items()
    }


if __name__ == "__main__":
    IDENTITIES.write_text(json.dumps(identities(), indent=2) + "\n", encoding="utf-8")
