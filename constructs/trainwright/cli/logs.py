"""``trainwright logs``: what the pods of a run wrote."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer

from trainwright.cli.session import Exit, ProjectOption, RunArgument, output, say, stop
from trainwright.cli.snapshots import ContextOption, FromOption, Seen, look
from trainwright.live.case import Case
from trainwright.live.kubectl import Kubectl, KubectlError
from trainwright.live.logs import Source, chosen, left_of, sources
from trainwright.live.runs import case_for

LEDGER = "the ledger beside the checkpoints has the end of each attempt"


def command(
    run: RunArgument,
    pod: Annotated[str | None, typer.Option(metavar="N", help="Of this pod alone: its number, or its name.")] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", min=0, help="Of the pod that this rank runs in.")] = None,
    first_failure: Annotated[bool, typer.Option("--first-failure", help="Of the pod that failed first.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log does; of one pod.")] = False,
    tail: Annotated[int, typer.Option(metavar="LINES", min=0, help="The last lines of each.")] = 200,
    file: FromOption = None,
    context: ContextOption = None,
    project: ProjectOption = None,
) -> None:
    """Print the logs of a run's pods, of any target: of all, of one, of a rank's, or of the one that failed first.

    Where the pods are gone, it prints what they left: termination messages and events. Ends with 1 where no log is there.
    """
    if sum((pod is not None, rank is not None, first_failure)) > 1:
        stop("--pod, --rank and --first-failure contradict each other: give one of them")
    if follow and file:
        stop("--follow reads a cluster: give no --from with it")
    seen = look(project, [run], file, context)
    case = case_for(seen.snapshot, seen.runs[0])
    ranks = int(seen.runs[0].record.facts.get("gpus_per_node") or 1)
    pods = chosen(case, pod, rank, ranks, first_failure)
    wanted = [source for one in pods for source in sources(one)]
    if not wanted:
        _gone(case, pod)
    if follow:
        if len(pods) != 1:
            stop(f"--follow is of one pod: name one of {', '.join(case.label(one.name) for one in pods)} with --pod")
        raise typer.Exit(_follow(wanted[-1], case, context, tail))
    shown = sum(_show(seen, case, source, tail, file is None, context) for source in wanted)
    if not shown:
        _gone(case, pod)


def _show(seen: Seen, case: Case, source: Source, tail: int, live: bool, context: str | None) -> bool:
    """Whether there is a log to print."""
    log = seen.snapshot.logs.get(f"{source.pod}/{source.container}", "")
    if live:
        again = ["--previous"] if source.previous else []
        try:
            where = Kubectl(context, case.namespace)
            log = where.run("logs", source.pod, f"--container={source.container}", f"--tail={tail}", *again)
        except KubectlError as error:
            say(f"{source.pod}/{source.container}: {error}")
    if log.strip():
        lines = log.rstrip("\n").split("\n")
        output("\n".join([f"--- pod {case.label(source.pod)} ({source.pod}/{source.container})", *lines[-tail:]]))
    return bool(log.strip())


def _follow(source: Source, case: Case, context: str | None, tail: int) -> int:
    words = ("logs", source.pod, f"--container={source.container}", f"--tail={tail}", "--follow")
    try:
        command = Kubectl(context, case.namespace).command(*words)
    except KubectlError as error:
        stop(str(error), Exit.ENVIRONMENT)
    return subprocess.run(command, check=False).returncode


def _gone(case: Case, pod: str | None) -> None:
    """Say what is left, and end."""
    left = left_of(case)
    there = ", ".join(case.label(one.name) for one in case.pods)
    if pod is not None and there and pod not in there.split(", "):
        stop(f"there is no pod {pod} of {case.run} here; there are: {there}")
    output("\n".join([f"the log is gone, or is not in the snapshot; {LEDGER}", *(f"  {line}" for line in left)]))
    raise typer.Exit(Exit.FINDINGS)
