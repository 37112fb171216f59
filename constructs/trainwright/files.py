"""Single files, for chart authors who keep runs and profiles where they like."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from trainwright.cluster import Cluster
from trainwright.project.load import load_cluster_file, load_run_file
from trainwright.run import Run


def load_run(path: str | PathLike[str]) -> Run:
    """A run from a YAML file or a Python module.

    Raises:
        CompileError: with findings that carry the file's lines.
    """
    return load_run_file(Path(path), str(path)).run


def load_cluster(path: str | PathLike[str]) -> Cluster:
    """A cluster profile from a YAML file.

    Raises:
        CompileError: with findings that carry the file's lines.
    """
    return load_cluster_file(Path(path), str(path)).cluster
