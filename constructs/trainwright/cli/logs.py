"""``trainwright logs``: what the pods of a run wrote."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer

from trainwright.cli.session import Exit, ProjectOption, RunArgument, output, say, stop
from trainwright.cli.snapshots import ContextOption, FromOption, Seen, look
from trainwright.findings import CompileError
from trainwright.live.case import Case, LivePod
from trainwright.live.kubectl import Kubectl, KubectlError
from trainwright.live.ledger import account, command_for, path_of, read_ledger
from trainwright.live.logs import Source, failed_first, of_pod, of_rank, sources
from trainwright.live.runs import Expected, case_for, planned, typed_for, written_for
from trainwright.objects.fields import mapping


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

    Where the pods are gone, it prints what is left: the ledger beside the checkpoints, read in a pod of the run that is up,
    termination messages, conditions and events, in order. Ends with 1 where no log is there.
    """
    if sum((pod is not None, rank is not None, first_failure)) > 1:
        stop("--pod, --rank and --first-failure contradict each other: give one of them")
    if follow and file:
        stop("--follow reads a cluster: give no --from with it")
    seen = look(project, [run], file, context)
    case = case_for(seen.snapshot, seen.runs[0])
    pods = _chosen(seen, case, pod, rank, first_failure)
    wanted = [source for one in pods for source in sources(one)]
    if follow and wanted:
        if len(pods) != 1:
            stop(f"--follow is of one pod: name one of {', '.join(case.label(one.name) for one in pods)} with --pod")
        raise typer.Exit(_follow(wanted[-1], case, context, tail))
    shown = sum(_show(seen, case, source, tail, file is None, context) for source in wanted)
    if not shown:
        _gone(seen, case, Kubectl(context, case.namespace) if file is None else None)


def _chosen(seen: Seen, case: Case, pod: str | None, rank: int | None, first_failure: bool) -> list[LivePod]:
    """The pods that are meant, of those that are here."""
    if first_failure:
        return failed_first(case)
    if pod is not None:
        found, there = of_pod(case, pod), ", ".join(case.label(one.name) for one in case.pods)
        if there and not found:
            stop(f"there is no pod {pod} of {case.run} here; there are: {there}")
        return found
    if rank is None:
        return list(case.pods)
    try:
        plan = planned(seen.project, case.run)
    except CompileError:
        stop(f"the file of {case.run} does not compile now, so which pod has rank {rank} is not known: give --pod")
    if rank >= plan.plan.world.size:
        stop(f"{case.run} has ranks 0 to {plan.plan.world.size - 1}")
    pods = of_rank(case, rank, plan)
    if pods is None:
        stop(f"ranks of {case.run} are numbered as their pods come, so only its logs say which pod has rank {rank}: leave it out")
    return pods


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


def _gone(seen: Seen, case: Case, cluster: Kubectl | None) -> None:
    """Say what is left, and end."""
    run = seen.runs[0]
    path, ledger = path_of(written_for(seen.project, run)), seen.snapshot.ledgers.get(case.name, "")
    if path and cluster and not ledger:
        try:
            ledger = read_ledger(cluster, case, path)
        except KubectlError as error:
            say(f"the ledger cannot be read in a pod: {error}")
    left, why = account(case, ledger), _why_no_log(case, cluster is None)
    lines = [why, "what is left, in order:" if left else "nothing else is left here", *(f"  {entry}" for entry in left)]
    if not ledger and why != NOT_YET:
        lines += _where_the_ledger_is(seen, run, case, path)
    output("\n".join(lines))
    raise typer.Exit(Exit.FINDINGS)


NOT_YET = "there is no log yet: no container of its pods has started"


def _why_no_log(case: Case, from_file: bool) -> str:
    states = [mapping(one, "/state") for pod in case.every_pod for _, one in pod.containers()]
    if any("waiting" not in state for state in states):
        return "the snapshot has no log of it (`trainwright collect` takes them)" if from_file else "the log is empty, or is gone"
    return NOT_YET if case.every_pod and not case.replaced else "the log is gone: none of its pods is here"


def _where_the_ledger_is(seen: Seen, run: Expected, case: Case, path: str) -> list[str]:
    if not path:
        return ["it keeps no ledger beside its checkpoints"]
    lines = [f"the ledger has the end of each attempt: {path}"]
    try:
        command = command_for(case, path, typed_for(seen.project, run))
    except (CompileError, LookupError, TypeError, ValueError):  # dist/ as somebody has edited it
        return lines
    return [f"{lines[0]}; this prints it:", f"  {command}"] if command else lines
