"""A project of its own for each test, and the cdk8s command line at the version of its lock."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.compiler.npm import installed

import trainwright.cdk8s  # noqa: F401  # one Node for the whole session, and ours: test modules import cdk8s by its own name

ROOT = Path(__file__).parents[3]


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
    return installed("cdk8s-cli", "cdk8s-cli", pytestconfig) / ".bin" / "cdk8s"
