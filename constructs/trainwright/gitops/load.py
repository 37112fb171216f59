"""Reading ``charts/gitops.yaml``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from trainwright.findings import CompileError
from trainwright.findings.codes import found, one_of
from trainwright.findings.locate import Positions
from trainwright.gitops.model import GitOps
from trainwright.reading import validate
from trainwright.reading.document import read_yaml


class GitOpsFile(NamedTuple):
    """What Argo CD is told, as read."""

    name: str
    """The path as shown to people."""
    gitops: GitOps
    positions: Positions


def read_gitops(path: Path, shown: str, clusters: Collection[str] | None) -> GitOpsFile:
    """The file.

    Args:
        path: where it is.
        shown: the path as shown to people.
        clusters: those that have a profile; None where a profile cannot be read.

    Raises:
        CompileError: with findings on the lines of the file.
    """
    document = read_yaml(path, shown)
    settings = validate(GitOps, document)
    known = settings.destinations if clusters is None else clusters
    said, fix = "Argo CD has a destination for cluster {}, which no profile has", one_of(known, "remove this line")
    unknown = [
        found("TW110", document.where(f"/destinations/{name}"), said.format(name), fix)
        for name in settings.destinations if name not in known
    ]
    if unknown:
        raise CompileError(unknown)
    return GitOpsFile(shown, settings, document.positions)
