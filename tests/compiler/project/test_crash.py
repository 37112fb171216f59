"""A synth that is killed loses no file, and the next one ends its work."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiler.projects import ROOT, Scratch, files, scratch

from trainwright.findings import Severity
from trainwright.project.scope import obstacles
from trainwright.project.status import compare, last_records

RUNS = ("digits-ddp", "stdlib-lm")


@pytest.fixture(scope="module")
def few_runs(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """This project with two runs: a synth of all writes no other file, and takes longer."""
    here = scratch(tmp_path_factory.mktemp("few") / "project")
    for path in here.path("charts/runs").iterdir():
        if path.stem.replace("_", "-") not in RUNS:
            path.unlink()
    here.synth()
    return here


def edited(folder: Path, project: Scratch) -> Scratch:
    """A copy in which a synth changes one file, adds one, and removes one."""
    shutil.copytree(project.root, folder)
    here = Scratch(folder)
    here.edit("charts/runs/digits-ddp.yaml", "base: 2e-3", "base: 3e-3")
    here.write("charts/runs/again.yaml", here.read("charts/runs/digits-ddp.yaml").replace("run: digits-ddp", "run: again"))
    here.path("charts/runs/stdlib-lm.yaml").unlink()
    return here


def check(here: Scratch) -> list[str]:
    build, records = here.build(), last_records(here.project)
    found = [*obstacles(here.project, build, records).all, *compare(here.project, build, records)]
    return [f"{finding.code} {finding.message}" for finding in found if finding.severity is Severity.ERROR]


@pytest.mark.slow
@pytest.mark.parametrize("apart", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_at_any_step_synth_loses_no_file(apart: int, tmp_path: Path, few_runs: Scratch) -> None:
    finished = edited(tmp_path / "finished", few_runs)
    before = files(finished.root / "dist")
    finished.synth()
    after = files(finished.root / "dist")
    assert before != after

    last = None
    for step in range(0, 100, apart):
        here = edited(tmp_path / f"killed-{step}", few_runs)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.compiler.project.killed_synth", str(here.root), str(step)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        left = files(here.root / "dist")
        for path in before.keys() | after.keys():
            allowed = {content for content in (before.get(path), after.get(path)) if content is not None}
            if path in before and path in after:
                assert path in left, f"step {step} lost {path}"
            assert path not in left or left[path] in allowed, f"step {step} left half of {path}"
        records = files(here.project.records)
        if ended.returncode == 0:
            last = step
            assert left == after
            break
        found = check(here)
        if records != files(finished.project.records):
            assert found, f"step {step}: check does not name what is stale"
            assert not any("by hand" in problem for problem in found), f"step {step}: nobody edited a file: {found}"
        here.synth()
        assert files(here.root / "dist") == after
        assert files(here.project.records) == files(finished.project.records)
        assert sorted(path.name for path in here.root.iterdir()) == [".git", "charts", "dist"]
        assert check(here) == []
    assert last is not None, "the synth that is not killed must end"
    assert last >= 4


def test_two_synths_do_not_write_at_once(tmp_path: Path, few_runs: Scratch) -> None:
    here = edited(tmp_path / "project", few_runs)
    before = here.dist()
    handle = os.open(here.root / "charts", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        ended = here.run("synth")
    finally:
        os.close(handle)
    assert ended.returncode == 3
    assert "another synth is writing dist/" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert here.dist() == before
    assert here.run("synth").returncode == 0
