"""``trainwright pause``: let a run wait."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.cli.session import ProjectOption, open_sources, output, run_file, say, stop
from trainwright.project.state import EditError, with_state
from trainwright.project.status import last_records

State = Literal["active", "paused", "done"]
RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN...", help="Names of runs in charts/runs.")]


def command(runs: RunsArgument, project: ProjectOption = None) -> None:
    """Write `state: paused` into runs' files, and say what to commit.

    Their objects leave dist/, which stops their jobs once it is merged and applied. Checkpoints, records, runtimes and fetched
    data stay; `trainwright resume` brings the same objects back, and training goes on from the last checkpoint.
    """
    set_state(runs, project, "paused", "Pause")


def set_state(runs: list[str], folder: Path | None, state: State, verb: str) -> None:
    """Edit the runs' files, all or none of them, and say what comes next."""
    project, sources = open_sources(folder)
    records = last_records(project)
    files = {name: sources.runs[run_file(sources, name)] for name in dict.fromkeys(runs)}
    for name, file in files.items():
        ended = file.run.state == "done" or (name in records.runs and records.runs[name].state == "done")
        if ended and state != "done":
            stop(f"{name} is done, and what has ended is not {'paused' if state == 'paused' else 'resumed'}: to run it again, "
                 f"replace `state: done` in {file.name} by `attempt: {file.run.attempt + 1}`")
    due = {name: file for name, file in files.items() if file.run.state != state}
    try:
        texts = {name: with_state(file.path, file.name, state) for name, file in due.items()}
    except EditError as error:
        stop(str(error))
    for name, text in texts.items():
        due[name].path.write_bytes(text)
        output(f"{due[name].name}: state: {state}")
    for name in files.keys() - due.keys():
        say(f"{name} is {state} already")
    if due:
        edited = " ".join(sorted({file.name for file in due.values()}))
        say(f"\nNext, for review:\n  trainwright synth\n  git add {edited} charts/lock dist\n"
            f"  git commit -m \"{verb} {', '.join(due)}\"")
