"""What the compiler's tests share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.amber import AmberSnapshotExtension
from tests.compiler.projects import Scratch, scratch


class YamlSnapshots(AmberSnapshotExtension):
    """Snapshots as a reviewer reads manifests: what is not text is YAML."""

    def serialize(self, data: Any, **_: Any) -> str:
        return data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=130)


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(YamlSnapshots)


# A project of a few runs, as a git repository of its own for each test.

RUNS = ("digits-ddp", "stdlib-lm", "sdk-train", "xgboost-trainjob")
CLUSTERS = ("laptop", "trainer-h100")


@pytest.fixture(scope="session")
def few_runs_once(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """This project with a few runs, in order and committed."""
    here = scratch(tmp_path_factory.mktemp("few") / "project")
    for folder, kept in (("charts/runs", RUNS), ("charts/clusters", CLUSTERS)):
        for path in here.path(folder).iterdir():
            if path.stem not in kept:
                path.unlink()
    here.synth()
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "few runs")
    return here


@pytest.fixture
def few(tmp_path: Path, few_runs_once: Scratch) -> Scratch:
    shutil.copytree(few_runs_once.root, tmp_path / "project")
    return Scratch(tmp_path / "project")
