"""``trainwright rehearse``: run the YAML of ``dist/`` on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, RunArgument, open_sources, run_file, say, stop
from trainwright.project.status import last_records


def command(
    run: RunArgument,
    project: ProjectOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="First empty the volumes that the pods write to.")] = False,
    workspace: Annotated[Path | None, typer.Option(metavar="DIR", help="For volumes and logs; default: .rehearsal/RUN.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="At most so many pods.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="End the rehearsal as failed after so long.")] = None,
    mount: Annotated[list[str] | None, typer.Option(metavar="PATH=FOLDER", help="A folder here for a path in the pods.")] = None,
) -> None:
    """Play a run's pods here, from the YAML in dist/.

    Pods are local processes with what the real controller would give them. Volumes stay between rehearsals: a run that was ended
    goes on from its last checkpoint. Ends with 0 if the Job completed, 1 if it failed, 3 if the manifests cannot work or this
    machine cannot play them, 143 if it was told to end.
    """
    where, sources = open_sources(project)
    file = sources.runs[run_file(sources, run)]
    path = where.dist / file.run.cluster / file.run.namespace / "runs" / f"{run}.k8s.yaml"
    if (state := file.run.state) != "active":
        stop(f"run {run} is {state} and not in dist/: remove its `state: {state}` and run `trainwright synth` to rehearse it")
    if not path.is_file():
        stop(f"{where.shown(path)} is not there: run `trainwright synth` first")
    entry = last_records(where).runs.get(run)
    if entry and entry.file != file.digest:
        say(f"{file.name} changed since dist/ was written: this plays the older YAML; `trainwright synth` brings it up to date\n")
    from trainwright.rehearsal import rehearse_file

    folder = workspace or where.root / ".rehearsal" / run
    mounts = dict(_mount(text) for text in mount or [])
    code = rehearse_file(path, workspace=folder, fresh=fresh, nodes=nodes, timeout_seconds=timeout, mounts=mounts)
    raise typer.Exit(code)


def _mount(text: str) -> tuple[str, Path]:
    path, separator, folder = text.partition("=")
    if not separator or not path.startswith("/") or not Path(folder).is_dir():
        stop(f"--mount {text}: write PATH=FOLDER, an absolute path in the pods and a folder on this machine")
    return path, Path(folder).resolve()
