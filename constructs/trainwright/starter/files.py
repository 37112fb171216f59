"""The files of a new project, from the folders beside this module and from what the compiler knows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

from pydantic import BaseModel

from trainwright.cluster import Cluster
from trainwright.gitops.model import GitOps
from trainwright.report.schema import file_schema_of
from trainwright.run import Run
from trainwright.run.defaults import Defaults

HERE = Path(__file__).parent
FIRST_RUN = "first-run"
FIRST_RUN_PATH = f"charts/runs/{FIRST_RUN}.yaml"
MODELINE = "# yaml-language-server: $schema=../../schemas/{}.json\n"
"""By which an editor with a YAML language server finds the schema of a file two folders below the project."""


@cache
def cluster_kinds() -> dict[str, str]:
    """Kind of a cluster that we know -> its profile, which begins with a comment on it."""
    paths = sorted((HERE / "clusters").glob("*.yaml"), key=lambda path: (path.stem != "laptop", path.stem))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def summary(profile: str) -> str:
    """What kind of cluster a profile is of: the first sentence of the comment that it begins with."""
    comment = takewhile(lambda line: line.startswith("#"), profile.splitlines())
    return re.split(r"\.(?:\s|$)", " ".join(line.lstrip("# ") for line in comment))[0]


def profile_path(cluster: str) -> str:
    return f"charts/clusters/{cluster}.yaml"


def cluster_files(cluster: str, profile: str) -> dict[str, str]:
    """What a project that exists gets for one more cluster: path in it -> text."""
    return {profile_path(cluster): MODELINE.format("cluster") + profile}


def run_files(run: str) -> dict[str, str]:
    return {FIRST_RUN_PATH: MODELINE.format("run") + run}


def project_files(cluster: str, profile: str) -> dict[str, str]:
    """Path in a new project -> its text; ``profile`` is the text of a YAML file."""
    return {
        **cluster_files(cluster, profile),
        "charts/gitops.yaml": _kept("project/gitops.yaml"),
        "charts/main.py": _kept("project/main.py"),
        "cdk8s.yaml": _kept("project/cdk8s.yaml"),
        **_schemas(),
        ".github/workflows/trainwright.yaml": _kept("project/workflow.yaml"),
        ".github/workflows/review.yaml": _kept("project/review.yaml"),
        ".gitignore": _kept("project/gitignore"),
        "requirements.txt": f"--find-links wheels\ntrainwright=={version('trainwright')}\n",
        "README.md": _kept("project/README.md"),
    }


@cache
def _schemas() -> Mapping[str, str]:
    models: dict[str, type[BaseModel]] = {"run": Run, "defaults": Defaults, "cluster": Cluster, "gitops": GitOps}
    return {f"schemas/{name}.json": json.dumps(file_schema_of(model), indent=2) + "\n" for name, model in models.items()}


def _kept(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
