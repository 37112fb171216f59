"""Every code has a page, and the examples on the pages are true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from tests.compiler.command_line import started
from tests.compiler.findings.page import PAGES, Block, read_page, write_example

from trainwright import pages
from trainwright.findings import Finding, Severity
from trainwright.findings.codes import CODES
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources

TODAY = date(2026, 7, 1)
NO_EXAMPLE = {"TW507", "TW516"}
"""What no run can have; its rule is tested on its own."""

COMMANDS = [code for code in CODES if "```console" in (PAGES / f"{code}.md").read_text(encoding="utf-8")]
FILES = [code for code in CODES if code not in COMMANDS and code not in NO_EXAMPLE]


@pytest.mark.parametrize("code", CODES)
def test_each_page_begins_with_what_a_finding_says_and_has_examples(code: str) -> None:
    page, entry = read_page(code), CODES[code]
    assert (page.title, page.severity) == (f"# {code}: {entry.title}", entry.weight)
    assert entry.why.endswith(".")
    assert list(page.sections) == (["Example"] if code in NO_EXAMPLE else ["Bad", "Good"])


def test_a_page_that_begins_otherwise_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "TW999.md").write_text("# TW999: new\n\nfatal\n", encoding="utf-8")
    monkeypatch.setattr(pages, "PLACES", (tmp_path,))
    with pytest.raises(ValueError, match="the page of TW999 does not begin with"):
        CODES["TW999"]


def findings_of(blocks: tuple[Block, ...], project: Path) -> tuple[Finding, ...]:
    write_example(blocks, project)
    return build_project(load_sources(Project(project)), TODAY).findings


@pytest.mark.parametrize("code", FILES)
def test_the_bad_example_has_the_finding(code: str, tmp_path: Path) -> None:
    findings = findings_of(read_page(code).sections["Bad"], tmp_path / "project")
    assert code in {finding.code for finding in findings}
    for finding in findings:
        assert finding.where.file, finding
        assert finding.message, finding
        assert finding.fix, finding


@pytest.mark.parametrize("code", FILES)
def test_the_good_example_compiles_without_it(code: str, tmp_path: Path) -> None:
    findings = findings_of(read_page(code).sections["Good"], tmp_path / "project")
    assert code not in {finding.code for finding in findings if finding.waived is None}
    assert not [finding for finding in findings if finding.severity is Severity.ERROR]


def ended(line: str, project: Path) -> subprocess.CompletedProcess[str]:
    """A line of a shell; what the command line alone does needs none."""
    words = shlex.split(line, comments=True)
    if words[0] == "trainwright" and not set(line) & set("|&;<>$`*"):
        return started(words[1:], project)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-c", line]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def play(block: Block, project: Path) -> str:
    """What the commands print; each must end with the exit code that its comment states."""
    printed = ""
    for line in block.text.splitlines():
        assert line.startswith("$ "), line
        expected = re.search(r"# exit ([0-9]+)$", line)
        result = ended(line[2:], project)
        printed = result.stdout + result.stderr
        assert result.returncode == (int(expected[1]) if expected else 0), (line, printed)
        assert "Traceback" not in printed, printed
        assert "internal error" not in printed, printed
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("code", COMMANDS)
def test_the_commands_of_the_bad_example_end_with_the_finding(code: str, tmp_path: Path) -> None:
    (block,) = read_page(code).sections["Bad"]
    write_example((), tmp_path / "project")
    assert code in play(block, tmp_path / "project")


@pytest.mark.slow
@pytest.mark.parametrize("code", COMMANDS)
def test_the_commands_of_the_good_example_end_without_it(code: str, tmp_path: Path) -> None:
    (block,) = read_page(code).sections["Good"]
    write_example((), tmp_path / "project")
    assert code not in play(block, tmp_path / "project")
