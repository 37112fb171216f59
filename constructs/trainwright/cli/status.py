"""``trainwright status``: where runs stand in the cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from trainwright.cli.session import JsonOption, ProjectOption, output, say, stop
from trainwright.cli.snapshots import ContextOption, FromOption, RunsArgument, Seen, look, look_again
from trainwright.live.kubectl import KubectlError
from trainwright.live.runs import changed_runtimes
from trainwright.live.status import Line, status_lines, summary, table


def command(
    runs: RunsArgument = None,
    file: FromOption = None,
    context: ContextOption = None,
    project: ProjectOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again; ends with Ctrl-C.")] = False,
    every: Annotated[int, typer.Option("--every", metavar="SECONDS", min=1, help="Between two looks of --watch.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show one line a run: its state, step, rate and time to go, last commit, attempts and goodput.

    Also what is in the cluster and not in dist/, and the other way round. Reads the cluster and changes nothing.
    """
    if watch and (file or json):
        stop("--watch looks at a cluster: give neither --from nor --json with it")
    seen = look(project, runs or (), file, context)
    if watch:
        _watch(seen, bool(runs), lambda: look_again(project, runs or (), None, context), every)
        return
    lines = _lines(seen, bool(runs))
    if json:
        output(seen.for_machines([line.data() for line in lines]))
        return
    output("\n".join([*table(lines), summary(lines)]))
    seen.say_what_lacks()
    for changed in changed_runtimes(seen.snapshot, seen.runs):
        say(changed)


def _lines(seen: Seen, chosen: bool) -> list[Line]:
    return status_lines(seen.snapshot, seen.runs, seen.every, foreign=not chosen)


def _watch(first: Seen, chosen: bool, again: Callable[[], Seen], seconds: int) -> None:
    """One table that changes on a terminal; elsewhere a line for each run whose state changes."""
    looks = _looks(first, again, seconds)
    if not sys.stdout.isatty():
        before: dict[str, tuple[str, str]] = {}
        for seen, failed in looks:
            if failed:
                say(failed)
                continue
            for line in _lines(seen, chosen):
                if before.get(line.name) != (line.state, line.pods):
                    output(f"{seen.snapshot.now:%H:%M:%S}  {'  '.join(cell for cell in line.cells() if cell != '-')}")
                    before[line.name] = (line.state, line.pods)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        for seen, failed in looks:
            lines = _lines(seen, chosen)
            last = f"{seen.snapshot.now:%H:%M:%S}  {failed or summary(lines)}"
            live.update(Text("\n".join([*table(lines), last])), refresh=True)


def _looks(first: Seen, again: Callable[[], Seen], seconds: int) -> Iterator[tuple[Seen, str]]:
    """Every look that there is; where one fails, the last that did not, with the reason: a watch outlives an API server."""
    seen, failed = first, ""
    while True:
        yield seen, failed
        time.sleep(seconds)
        try:
            seen, failed = again(), ""
        except KubectlError as error:
            failed = str(error)
