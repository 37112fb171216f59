"""What commands that read a cluster share: the snapshot, from a file or taken with kubectl, and the runs that it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from trainwright.cli.session import Exit, no_such, open_project, say, stop
from trainwright.live.collect import collect, take
from trainwright.live.kubectl import Kubectl, KubectlError
from trainwright.live.runs import Expected, expected, of_cluster
from trainwright.live.snapshot import Snapshot, SnapshotError, read_snapshot
from trainwright.project.load import Project
from trainwright.project.status import last_records

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Read this file of `trainwright collect` or `kubectl get -o json`, not a cluster."
    ),
]
ContextOption = Annotated[str | None, typer.Option("--context", help="Context of kubectl; default: the current one.")]
RunsArgument = Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Only these runs; default: all.")]


class Seen(NamedTuple):
    """A project beside a snapshot."""

    project: Project
    snapshot: Snapshot
    runs: list[Expected]
    """Of its cluster; those that were asked for alone."""
    every: list[Expected]
    """Of the whole project."""

    def for_machines(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """What is said of the runs, with what it is said from, as JSON."""
        said = {"taken": self.snapshot.now.isoformat(), "lacks": dict(self.snapshot.lacks), "runs": rows}
        return json.dumps(said, indent=2)

    def say_what_lacks(self) -> None:
        for what, why in self.snapshot.lacks.items():
            say(f"the snapshot lacks {what}: {why}")


def look(folder: Path | None, names: Sequence[str], file: Path | None, context: str | None) -> Seen:
    """The snapshot, and the runs that a command is asked about."""
    try:
        return look_again(folder, names, file, context)
    except (SnapshotError, KubectlError) as error:
        stop(str(error), Exit.USAGE if isinstance(error, SnapshotError) else Exit.ENVIRONMENT)


def look_again(folder: Path | None, names: Sequence[str], file: Path | None, context: str | None) -> Seen:
    """The same, for those who go on where the cluster does not answer.

    Raises:
        SnapshotError: The file is no snapshot.
        KubectlError: The cluster could not be read.
    """
    project = open_project(folder)
    every = expected(last_records(project).runs)
    for name in names:
        if name not in {run.run for run in every}:
            stop(no_such("active run", name, [run.run for run in every]))
    chosen = [run for run in every if not names or run.run in names]
    snapshot = read_snapshot(file) if file else take(Kubectl(context), namespaces(chosen))
    return Seen(project, snapshot, chosen if names else of_cluster(snapshot, chosen), every)


def namespaces(runs: Sequence[Expected]) -> list[str]:
    return sorted({run.namespace for run in runs if run.namespace})


def collected(context: str | None, where: Sequence[str]) -> dict[str, Any]:
    """The content of a snapshot's file."""
    try:
        return collect(Kubectl(context), where)
    except KubectlError as error:
        stop(str(error), Exit.ENVIRONMENT)
