"""A machine with Python, make and git alone passes ``make test``: what needs more is skipped, says of what, and is counted."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.pages import ROOT
from tests.programs import PACKAGES, found, lacking, needs


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(("program", "package"), PACKAGES.items())
def test_what_is_missing_is_told_with_its_package(program: str, package: str, bare: Path) -> None:
    assert lacking(program) == f"needs {program}: apt-get install {package}"
    assert needs(program).args == (True,)
    for folder in (bare.with_name("sbin"), bare):  # daemons are where a user's PATH does not lead
        folder.mkdir(exist_ok=True)
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
        assert found(program) == str(folder / program)
    assert lacking(program) == ""


def test_several_are_told_at_once(bare: Path) -> None:
    said = "needs ssh and ssh-keygen and sshd: apt-get install openssh-client openssh-server"
    assert lacking("ssh", "ssh-keygen", "sshd") == said


def test_no_test_looks_for_them_by_itself() -> None:
    alone = re.compile(r"which\(\s*[\"'](" + "|".join(map(re.escape, PACKAGES)) + r")[\"']")
    files = [path for path in (ROOT / "tests").rglob("*.py") if "engines" not in path.parts]
    assert [str(path) for path in files if alone.search(path.read_text(encoding="utf-8"))] == []


def test_ci_brings_all_of_them() -> None:
    ours = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    brought = set(ours.partition('packages="')[2].partition('"')[0].split())
    assert set(PACKAGES.values()) - {"openssh-client"} <= brought, "the server brings the client"
    assert ours.index("tests_of_programs\nstep") < ours.index('step "system packages"'), "before anything is installed"


@pytest.mark.parametrize(("reasons", "said"), [
    (["needs sshd: apt-get install openssh-server", "TRAINWRIGHT_CRDS names no folder", "TRAINWRIGHT_CRDS names no folder"],
     ["Not tested on this machine: 3 tests were skipped. How many, and why:", "2 TRAINWRIGHT_CRDS names no folder",
      "1 needs sshd: apt-get install openssh-server"]),
    ([], ["No test was skipped."]),
])  # fmt: skip
def test_make_test_says_what_it_skipped(reasons: list[str], said: list[str], tmp_path: Path) -> None:
    stamps = tmp_path / "venv" / "stamps"
    stamps.mkdir(parents=True)
    for part in ("one", "two"):
        (stamps / f"skips-{part}").write_text("".join(f"{reason}\n" for reason in (reasons if part == "two" else [])))
        (tmp_path / part).touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = [f"--old-file={each}" for each in ("lint", "one", "two")]
    command = ["make", "--silent", "test", f"VENV={tmp_path / 'venv'}", "PARTS=one two", *made]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert [" ".join(line.split()) for line in ended.stdout.splitlines()] == said, ended.stderr


@pytest.mark.parametrize(("target", "what"), [
    ("synth", "the compiler"), ("rehearse", "torch"), ("test-trainer", "what the tests need"),
])
def test_make_says_what_it_installs_how_large_it_is_and_how_long_that_takes(target: str, what: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}", "RUN=any"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    said = [line for line in shown.splitlines() if line.startswith("echo")]
    first = next(number for number, line in enumerate(said) if f"Installing {what}" in line)
    assert re.search(rf"into {tmp_path}/venv, once: .*[0-9]+ MB to fetch", said[first])
    assert re.search(r"About .* on a line of 10 MB/s, [0-9]+ minutes on one of 1 MB/s", said[first + 1])
