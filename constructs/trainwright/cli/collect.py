"""``trainwright collect``: a state of a cluster, in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright.cli.session import ProjectOption, open_project, output, say, stop
from trainwright.cli.snapshots import ContextOption, collected, namespaces
from trainwright.live.kubectl import Kubectl, KubectlError
from trainwright.live.ledger import path_of, read_ledger
from trainwright.live.runs import Expected, case_for, expected, written_for
from trainwright.live.snapshot import of_list
from trainwright.project.load import Project
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

    Objects, events, ends of logs, ledgers and one scrape of metrics of the namespaces, nodes and queues, read with kubectl.
    Values of Secrets and ConfigMaps are not in it. Changes nothing in the cluster.
    """
    opened = open_project(project)
    runs = expected(last_records(opened).runs)
    where = namespace or namespaces(runs)
    if not where:
        stop("no namespace to collect from: name one with --namespace")
    data = collected(context, where)
    _add_ledgers(data, opened, runs, context)
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    output(f"{file}: {counted(len(data['items']), 'object')} of {', '.join(where)}")
    for what, why in data["collected"]["lacks"].items():
        say(f"it lacks {what}: {why}")


def _add_ledgers(data: dict[str, Any], project: Project, runs: Sequence[Expected], context: str | None) -> None:
    """Those of runs that have a pod in which they can be read."""
    snapshot, found = of_list(data), dict[str, str]()
    for run in runs:
        case = case_for(snapshot, run)
        path = path_of(written_for(project, run)) if case.pods else ""
        try:
            ledger = read_ledger(Kubectl(context, case.namespace), case, path) if path else ""
        except KubectlError as error:
            data["collected"]["lacks"][f"ledger of {case.run}"] = str(error)
        else:
            found |= {case.name: ledger} if ledger else {}
    data["collected"]["ledgers"] = found
