"""The examples of docs/validate.md, in the example project of the findings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiler.validate.samples import PROJECT, ROOT
from typer.main import get_command

BLOCKS = re.findall(
    r"^```console\n(.*?)^```$", (ROOT / "docs" / "validate.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example(block: str, tmp_path: Path) -> None:
    shutil.copytree(PROJECT, tmp_path / "project")
    environment = {name: value for name, value in os.environ.items() if name != "TRAINWRIGHT_CRDS"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "project",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        status = re.search(r"# exit ([0-9])$", command)
        assert ended.returncode == (int(status[1]) if status else 0), ended.stderr
        summary, _, findings = expected.partition("\n")
        assert ended.stdout.strip() == summary
        assert findings in ended.stderr


def test_the_page_has_every_option() -> None:
    from trainwright.cli.main import command_line

    parameters = get_command(command_line("validate")).commands["validate"].params  # type: ignore[attr-defined]
    options = {name for it in parameters for name in it.opts if name.startswith("--")}
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(--[a-z]+)", page, re.MULTILINE)) == options - {"--help"}
