"""``trainwright list``: what there is in a project."""

from __future__ import annotations

import json as encoder
from typing import Any

from trainwright.cli.session import JsonOption, ProjectOption, open_sources, output, say
from trainwright.findings import Severity
from trainwright.project.load import RunFile, Sources
from trainwright.project.record import Records, RunRecord
from trainwright.project.status import last_records
from trainwright.report.screen import columns
from trainwright.units import counted


def command(project: ProjectOption = None, json: JsonOption = False) -> None:
    """List the runs and the clusters, with the target and the state of each run.

    Compiles nothing: the state is what the last synth made of a run, and whether its file was edited since.
    """
    where, sources = open_sources(project)
    records = last_records(where)
    data = {"runs": list(_runs(sources, records)), "clusters": list(_clusters(sources))}
    if json:
        output(encoder.dumps(data, indent=2))
    else:
        for what, rows in data.items():
            cells = [[str(cell) for cell in row.values()] for row in rows] or [["none"]]
            output("\n".join([what, *(f"  {line}" for line in columns(cells, len(cells[0])))]))
    unread = dict.fromkeys(finding.where.file for finding in sources.findings if finding.severity is Severity.ERROR)
    if unread:
        say(f"not read: {', '.join(map(str, unread))}; see `trainwright check`")


def _runs(sources: Sources, records: Records) -> list[dict[str, Any]]:
    """Those that there are, and those that only have a record."""
    rows = [_run(sources, name, file, records.runs.get(name)) for name, file in sorted(sources.runs.items())]
    gone = [name for name in sorted(records.runs) if name not in sources.runs and name not in sources.unread]
    return rows + [dict.fromkeys(_COLUMNS, "-") | {"run": name, "state": "has a record and no file"} for name in gone]


_COLUMNS = ("run", "cluster", "namespace", "target", "topology", "size", "state")


def _run(sources: Sources, name: str, file: RunFile, record: RunRecord | None) -> dict[str, Any]:
    run, profile = file.run, sources.clusters.get(file.run.cluster)
    target = run.target or (profile.cluster.default_target if profile else "unknown: no such profile")
    size = f"{counted(run.topology.nodes, 'node')} x {counted(run.topology.gpus_per_node, 'GPU')}"
    cells = (name, run.cluster, run.namespace, target, run.topology.kind, size, _state(file, record))
    return dict(zip(_COLUMNS, cells, strict=True))


def _state(file: RunFile, record: RunRecord | None) -> str:
    """What the last synth made of it, and what the next would change."""
    state = file.run.state
    if record is None or (record.state == "done" and state == "active"):
        return "new: not in dist/ yet" if state == "active" else state
    if record.state == state == "done":
        return "done"
    held = f", held: {record.hold.why}" if record.hold else ""
    edited = f", {state} at the next synth" if state != record.state else ", edited since" if record.file != file.digest else ""
    return f"{record.state} as {file.run.run}-{record.identity}{held}{edited}"


def _clusters(sources: Sources) -> list[dict[str, Any]]:
    of = [file.run.cluster for file in sources.runs.values()]
    return [
        {
            "cluster": name, "kubernetes": f"Kubernetes {file.cluster.kubernetes}", "default target": file.cluster.default_target,
            "runs": counted(of.count(name), "run"), "pools": f"pools {', '.join(file.cluster.node_pools)}",
            "namespaces": f"namespaces {', '.join(file.cluster.namespaces)}",
        }
        for name, file in sorted(sources.clusters.items())
    ]  # fmt: skip
