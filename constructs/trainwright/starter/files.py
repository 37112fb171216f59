"""The files of a new project, from the folders beside this module and from what the compiler knows."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path

from trainwright.cluster import Cluster
from trainwright.report.schema import file_schema_of
from trainwright.run import Run
from trainwright.run.defaults import Defaults

HERE = Path(__file__).parent
FIRST_RUN = "first-run"
EXAMPLE = ("trainer-h100", "research")
"""Cluster and namespace of the Applications as they are kept here."""
MODELINE = "# yaml-language-server: $schema=../../schemas/{}.json\n"
"""By which an editor with a YAML language server finds the schema of a file two folders below the project."""


@cache
def cluster_kinds() -> dict[str, str]:
    """Kind of a cluster that we know -> its profile, which begins with a comment on it."""
    paths = sorted((HERE / "clusters").glob("*.yaml"), key=lambda path: (path.stem != "laptop", path.stem))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def project_files(cluster: str, profile: str, namespace: str, run: str) -> dict[str, str]:
    """Path in the project -> its text; ``profile`` and ``run`` are texts of YAML files."""
    applications = _kept("argo-cd/applications.yaml")
    for example, name in zip(EXAMPLE, (cluster, namespace), strict=True):
        applications = applications.replace(example, name)
    return {
        f"charts/clusters/{cluster}.yaml": MODELINE.format("cluster") + profile,
        f"charts/runs/{FIRST_RUN}.yaml": MODELINE.format("run") + run,
        "charts/main.py": _kept("project/main.py"),
        "cdk8s.yaml": _kept("project/cdk8s.yaml"),
        "schemas/run.json": json.dumps(file_schema_of(Run), indent=2) + "\n",
        "schemas/defaults.json": json.dumps(file_schema_of(Defaults), indent=2) + "\n",
        "schemas/cluster.json": json.dumps(file_schema_of(Cluster), indent=2) + "\n",
        "argo-cd/applications.yaml": applications,
        "argo-cd/health.yaml": _kept("argo-cd/health.yaml"),
        ".github/workflows/trainwright.yaml": _kept("project/workflow.yaml"),
        ".github/workflows/review.yaml": _kept("project/review.yaml"),
        ".gitignore": _kept("project/gitignore"),
        "requirements.txt": f"--find-links wheels\ntrainwright=={version('trainwright')}\n",
        "README.md": _kept("project/README.md"),
    }


def _kept(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
