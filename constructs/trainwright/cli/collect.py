"""``trainwright collect``: a state of a cluster, in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, open_project, output, say, stop
from trainwright.cli.snapshots import ContextOption, collected, namespaces
from trainwright.live.runs import expected
from trainwright.project.status import last_records
from trainwright.units import counted


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Of this namespace; again for more. Default: those of the runs.")
    ] = None,
    context: ContextOption = None,
    project: ProjectOption = None,
) -> None:
    """Write what the cluster says now, for `status`, `logs` and `diagnose --from FILE`.

    Objects, events, the last lines of logs and one scrape of metrics of the namespaces, nodes and queues, read with kubectl.
    Values of Secrets and ConfigMaps are not in it. Changes nothing in the cluster.
    """
    where = namespace or namespaces(expected(last_records(open_project(project)).runs))
    if not where:
        stop("no namespace to collect from: name one with --namespace")
    data = collected(context, where)
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    held: dict[str, dict[str, str]] = data["collected"]  # type: ignore[assignment]
    output(f"{file}: {counted(len(data['items']), 'object')} of {', '.join(where)}")  # type: ignore[arg-type]
    for what, why in held["lacks"].items():
        say(f"it lacks {what}: {why}")
