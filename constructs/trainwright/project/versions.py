"""Which version of Kubernetes a file is for: that of the cluster whose folder in ``dist/`` it lies in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from trainwright.findings.finding import CompileError
from trainwright.project.load import PROFILE_SUFFIXES, Project, find_project, load_cluster_file


def version_for(file: Path) -> str | None:
    """Of the profile in the project around a file; None outside of any ``dist/``, and where no profile can be read."""
    file = file.resolve()
    try:
        project = find_project(file.parent)
    except CompileError:
        return None
    if not file.is_relative_to(project.dist):
        return None
    return _stated(project, file.relative_to(project.dist).parts[0])


@cache
def _stated(project: Project, cluster: str) -> str | None:
    """By a profile; what is wrong with one is for ``trainwright check`` to say."""
    profile = next((path for suffix in PROFILE_SUFFIXES if (path := project.clusters / f"{cluster}{suffix}").is_file()), None)
    try:
        return load_cluster_file(profile, project.shown(profile)).cluster.kubernetes if profile else None
    except CompileError:
        return None
