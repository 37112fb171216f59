"""What the pages on stopping runs and on applying them show is what the commands say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.compiler.live.conftest import Lab
from tests.compiler.projects import TRAINWRIGHT, Scratch
from tests.pages import DOCS, blocks


def played(page: str, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each command of a page's consoles, what it says, and what the page shows."""
    for block in blocks(DOCS / page):
        for call in block.body.split("$ ")[1:] if block.language == "console" else ():
            command, _, shown = call.partition("\n")
            path = {"PATH": os.pathsep.join([str(TRAINWRIGHT.parent), environment["PATH"]])}
            ended = subprocess.run(
                ["bash", "-c", command], cwd=folder, env={**environment, **path}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )
            yield command, ended.stdout, shown


def fits(said: str, shown: str) -> bool:
    """Whether it is the same, where an ellipsis stands for any text."""
    return re.fullmatch(re.escape(shown.strip()).replace("…", "(?s:.*)"), said.strip()) is not None


def test_stop_pause_retire(few: Scratch) -> None:
    for command, said, shown in played("pause.md", few.root, os.environ):
        lines = said.split("\n\nNext, for review:")[0]
        assert fits(lines, shown), (command, said)


def test_run_it_without_argo_cd(lab: Lab) -> None:
    commands = [command for command, said, shown in played("apply.md", lab.here.root, lab.environment) if fits(said, shown)]
    assert len(commands) == 3, commands
