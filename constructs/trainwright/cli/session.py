"""What every command needs: shared options, the project and its sources, output, and one way to fail."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from enum import IntEnum
from pathlib import Path, PurePath
from typing import Annotated, NoReturn, TextIO, TypeVar

import typer

from trainwright.findings import CompileError, Finding, Severity, visible
from trainwright.project.load import Project, Sources, find_project, load_sources
from trainwright.report.finding import render_findings
from trainwright.report.formats import Format
from trainwright.report.screen import can_redraw
from trainwright.run import Run


class Exit(IntEnum):
    OK = 0
    FINDINGS = 1
    """Errors in runs or profiles, or ``dist/`` is not what they compile to."""
    USAGE = 2
    """Wrong options or arguments, or a name that does not exist."""
    ENVIRONMENT = 3
    """Something outside the project's files is missing or broken: Node, disk, permissions."""
    INTERNAL = 70
    """A defect of trainwright itself."""
    READER_LEFT = 141
    """Who read the output went away, as `head` does; what a shell says of programs that end by SIGPIPE."""


class Detail(IntEnum):
    """How much a command says of what it did."""

    QUIET = 0
    """Errors."""
    NORMAL = 1
    """What changed, and warnings."""
    VERBOSE = 2
    """Plans and notes too."""

    def shows(self, severity: Severity) -> bool:
        return self >= {Severity.ERROR: Detail.QUIET, Severity.WARNING: Detail.NORMAL, Severity.INFO: Detail.VERBOSE}[severity]


ProjectOption = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="The project's folder; default: the nearest one with charts/.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run in charts/runs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Of the findings; all but text go to standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print notes too, and plans where runs are written.")]
T = TypeVar("T")


def detail(quiet: bool, verbose: bool) -> Detail:
    if quiet and verbose:
        stop("--quiet and --verbose contradict each other: give one of them")
    return Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL


def output(text: str) -> None:
    """A result, on standard output. On a terminal, rows of a plan are wrapped at its width, in their own column."""
    try:
        print(_for(sys.stdout, text), flush=True)
    except BrokenPipeError:
        reader_left()


def reader_left() -> NoReturn:
    """End quietly where nobody reads on."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or the interpreter says so once more when it ends
    raise SystemExit(Exit.READER_LEFT)


def _for(stream: TextIO, text: str) -> str:
    """A text as a stream shows it: a terminal in lines of its width."""
    lines = [visible(line) for line in text.split("\n")]
    if stream.isatty():
        width = max(shutil.get_terminal_size().columns, 40)
        lines = [part for line in lines for part in _wrapped(line, width)]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> list[str]:
    """A line that is too long for the terminal: a row of a plan goes on in its second column, another line below its start."""
    row = re.match(r"  (?=\S).{13} (?=\S)| *", line)
    indent = " " * (row.end() if row else 0)
    wrapped = textwrap.wrap(
        line, width, subsequent_indent=indent, replace_whitespace=False, break_on_hyphens=False, break_long_words=False
    )
    return wrapped or [line]


def watched(items: Sequence[T], what: str) -> Iterator[T]:
    """The items; on a terminal with a bar of progress once they have taken two seconds."""
    if not sys.stderr.isatty():
        yield from items
        return
    begin, done = time.monotonic(), 0
    while done < len(items) and time.monotonic() - begin < PATIENCE:
        yield items[done]
        done += 1
    if done < len(items):
        from rich.console import Console
        from rich.progress import track

        left, console = items[done:], Console(stderr=True)
        yield from track(left, what, len(items), done, console=console, transient=True) if can_redraw(console) else left


PATIENCE = 2.0
"""Seconds without a sign of life."""


def say(text: str) -> None:
    """Progress or a message, on standard error."""
    print(_for(sys.stderr, text), file=sys.stderr)


def open_project(folder: Path | None) -> Project:
    try:
        return find_project(folder or Path.cwd())
    except CompileError as error:
        stop(f"{error.findings[0].message}: {error.findings[0].fix}")


def open_sources(folder: Path | None) -> tuple[Project, Sources]:
    project = open_project(folder)
    return project, load_sources(project, watched)


def today() -> date:
    """The day, the same in every time zone, that waivers are compared with.

    SOURCE_DATE_EPOCH sets it for a build that must not move with the clock.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError):
        stop(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds since 1970")


def show(findings: Sequence[Finding]) -> None:
    """Findings, on standard error."""
    if findings:
        from rich.console import Console

        class Messages(Console):
            def on_broken_pipe(self) -> None:  # Rich would end with 1, as for a finding
                reader_left()

        render_findings(findings, Messages(stderr=True, highlight=False))


def fail(findings: Sequence[Finding]) -> NoReturn:
    """Print findings and end with FINDINGS."""
    show(findings)
    raise typer.Exit(Exit.FINDINGS)


def write_findings(findings: Sequence[Finding], style: Format) -> None:
    """Findings for a program, on standard output; ends with FINDINGS where one is an error."""
    from trainwright.report.formats import formatted

    text = formatted(findings, style)
    if text:
        print(text, flush=True)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(Exit.FINDINGS)


def stop(message: str, code: Exit = Exit.USAGE) -> NoReturn:
    """Print one sentence and end."""
    say(message)
    raise typer.Exit(code)


def run_file(sources: Sources, name: str, refuse: Callable[[Sequence[Finding]], NoReturn] = fail) -> str:
    """A run's name, checked; a name that does not exist ends the command with the ones that do, and a run that cannot be read as
    ``refuse`` says what is wrong with it.
    """
    if name in sources.runs:
        return name
    broken = [finding for finding in sources.findings if finding.where.file and _is_of(name, PurePath(finding.where.file))]
    if broken := broken or list(sources.unread.get(name, ())):
        refuse(broken)
    errors = [PurePath(one.where.file or "") for one in sources.findings if one.severity is Severity.ERROR]
    unread = dict.fromkeys(str(path) for path in errors if path.parent.name in ("charts", "runs"))
    also = f"; not read: {', '.join(unread)}, see `trainwright check`" if unread else ""
    stop(no_such("run", name, sources.runs) + also)


def for_target(run: Run, target: str) -> Run:
    """The same run on another target; a name that is none ends the command."""
    from trainwright.operators import TARGETS

    if target not in TARGETS:
        stop(no_such("target", target, TARGETS))
    return run.model_copy(update={"target": target})


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that does not exist: the one that may be meant, and those that there are."""
    from trainwright.model import closest

    names = list(known)
    near = closest(PurePath(name).stem.replace("_", "-"), names)
    said = f"there is no {what} {name}; {f'did you mean {near}? ' if near else ''}"
    return said + (f"use one of: {', '.join(names)}" if names else "there are none")


def _is_of(name: str, file: PurePath) -> bool:
    """Whether a file may have the run: it is called after it, or it is a module whose runs' names begin like it."""
    stem = file.stem.replace("_", "-")
    return stem == name or (file.suffix == ".py" and name.startswith(f"{stem}-"))
