"""The rehearsal at a terminal: ``trainwright rehearse`` without its command line, and what a person sees of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import markup
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainwright.findings import visible
from trainwright.operators.ending import ContainerEnd, Decision, IndexFailed, PodEnd, Replace, Restart
from trainwright.rehearsal.faults.verdict import termination_message
from trainwright.rehearsal.observer import Event, Observer, Opening, TrainingLog
from trainwright.rehearsal.rehearse import CANNOT_WORK_CODE, USAGE_CODE, Outcome, rehearse
from trainwright.rehearsal.setting import Options
from trainwright.rehearsal.stated.objects import CannotWorkError, UsageError, objects_in
from trainwright.rehearsal.stated.pod import Pod
from trainwright.rehearsal.table import PodTable
from trainwright.report.screen import Screen, can_redraw
from trainwright_trainer.contract import EXIT_CODES, ExitCode
from trainwright_trainer.contract.exit_codes import Disposition

PLAIN_SECONDS = 2.0
"""Time between two lines of progress where the output is not a terminal."""
LIVE_SECONDS, BAR = 0.25, 24
"""Of the table on a terminal: the least time between two drawings, and the width of the bar."""
LONGEST_MESSAGE = 200
"""Characters of a termination message that are shown."""
ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception|Interrupt)\b|(?i:fatal|error)\b).*")
"""A line of a log in which a program says why it failed."""
BOX_EDGES, BOX_SIDE = ("╭", "╰", "┌", "└"), "│┃ "
"""Of the box around an error of a command line that typer or rich made."""
MILESTONES = frozenset({"run_started", "restored", "checkpoint_committed", "evaluated", "stopped"})
"""Events of rank 0 that are shown as lines of their own."""


def rehearse_file(
    path: Path, *, workspace: Path, options: Options | None = None, as_json: bool = False, console: Console | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Rehearse the manifests in a file, and print what happens.

    Args:
        path: A file of ``dist/``: one run's objects. Those of its namespace lie in ``../foundation``.
        workspace: Holds the claims, which stay, and the logs of the last rehearsal.
        options: What the caller chooses.
        as_json: Write what became of it to standard output as one JSON object, and all else to standard error.
        console: Where to print; standard output by default.
        beside: Further objects of the cluster, such as a runtime that is installed there.

    Returns:
        The exit code: 0 the Job completed, 1 it failed, 2 the request is wrong, 3 the manifests cannot work or this machine
        cannot play them, 143 a signal ended the rehearsal.
    """
    console, options = console or Console(stderr=as_json), options or Options()
    observer = ConsoleObserver(console)
    try:
        outcome = rehearse(objects_in(path), workspace, options, observer, foundation=[*foundation_of(path), *beside])
    except UsageError as error:
        _print_plain(console, str(error))
        return USAGE_CODE
    except CannotWorkError as error:
        print_problems(console, error)
        return CANNOT_WORK_CODE
    except OSError as error:
        _print_plain(console, f"the rehearsal cannot continue: {error}")
        return CANNOT_WORK_CODE
    finally:
        observer.close()
    print_outcome(console, outcome, workspace.absolute())
    if as_json:
        print(json.dumps(as_document(outcome)))
    return outcome.exit_code


def foundation_of(path: Path) -> list[dict[str, Any]]:
    """What a run of ``dist/`` finds in its namespace; nothing where the file lies elsewhere."""
    folder = path.absolute().parent.parent / "foundation"
    return [one for file in sorted(folder.glob("*.yaml")) for one in objects_in(file)]


class ConsoleObserver(Observer):
    """Prints to a rich console: below what happens a table of the pods on a terminal, lines of progress elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._opening: Opening | None = None
        self._screen = Screen(console) if can_redraw(console) else None
        self._pods = PodTable(())
        self._last_line = 0.0
        self._ready: set[int] = set()

    def opened(self, opening: Opening) -> None:
        self._opening = opening
        objects = opening.setting.objects
        self._pods = PodTable(objects.slots)
        size, note = opening.size, escape(opening.setting.network.note)
        self._say(f"[bold]{escape(objects.name)}[/] in {escape(objects.namespace)}, on this machine: {size}, {note}")
        self._say("\n[bold]Differences from the cluster[/]")
        width = max(len(difference.subject) for difference in opening.differences)
        for difference in opening.differences:
            self._say(f"  [dim]{escape(difference.subject):<{width}}[/]  {escape(difference.text)}")
        self._say("")
        if opening.was_complete:
            self._say(f"This run is complete in {escape(str(opening.setting.workspace.root))}: its pods will end at once. "
                      "Use --fresh to train again.")

    def pod_started(self, pod: Pod) -> None:
        self._pods.started(pod.slot)
        self._draw(at_once=True)
        self._say(f"pod {pod.name} runs at {pod.address}")

    def container_restarts(self, pod: Pod) -> None:
        self._pods[pod.slot].containers += 1

    def pod_served(self, pod: Pod, values: Mapping[str, float]) -> None:
        self._pods.served(pod.slot, values)
        self._draw()

    def pod_ready(self, pod: Pod) -> None:
        self._pods[pod.slot].phase = "Ready"
        self._draw(at_once=True)
        self._ready.add(pod.slot.number)
        if self._opening and len(self._ready) == len(self._opening.setting.objects.slots):
            self._say("all pods are ready")

    def pod_event(self, pod: Pod, text: str) -> None:
        self._say(f"[yellow]pod {pod.name}: {escape(text)}[/]")

    def log_event(self, pod: Pod, container: str, event: Event) -> None:
        if event.name == "pod_ended":
            return  # its termination message says the same
        if event.is_warning:
            self._say(f"[yellow]{escape(f'[{pod.slot.name}]')} {escape(event.text)}[/]")
        elif self._leads(pod) and event.name == "step":
            self._pods[pod.slot].step = self._training.step
            self._progress()
        elif self._leads(pod) and event.name in MILESTONES:
            self._milestone(event)

    def log_line(self, pod: Pod, container: str, line: str) -> None:
        if self._leads(pod):
            self._say(escape(line))

    def pod_ended(self, pod: Pod, end: PodEnd) -> None:
        self._ready.discard(pod.slot.number)
        self._pods[pod.slot].phase = "Succeeded" if end.succeeded else "Failed"
        self._draw(at_once=True)
        self._say(f"pod {pod.name} ended: {escape(describe_end(end))}")

    def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
        if isinstance(decision, Replace):
            counted = f"failure {decision.failures}" if decision.match.action == "Count" else "not counted"
            rule = "" if decision.match.rule is None else f", {decision.match.action} rule at index {decision.match.rule}"
            waits = f"in {delay_seconds:g} s, in a cluster {decision.seconds} s"
            self._say(f"{end.role} {end.index} gets a new pod {waits} ({counted}{rule})")
        elif isinstance(decision, Restart):
            self._say(f"all pods{f' of {decision.role}' if decision.role else ''} start again in {delay_seconds:g} s "
                      f"({f'restart {decision.restarts}' if decision.counted else 'not counted'})")
        elif isinstance(decision, IndexFailed):
            self._say(f"[yellow]{end.role} {end.index} has failed for good[/]")

    def disturbed(self, what: str) -> None:
        self._say(f"[bold magenta]{escape(what)}[/]")

    def comparing(self) -> None:
        self._say("the same run is played without faults, to compare the losses")

    def stopping(self, reason: str) -> None:
        self._pods.stopping()
        self._draw(at_once=True)
        self._say(f"{escape(reason)}: all pods are told to end")

    def close(self) -> None:
        """Stop drawing."""
        if self._screen is not None:
            self._draw(at_once=True)
            self._screen.close()
            self._screen = None

    def _leads(self, pod: Pod) -> bool:
        return self._opening is not None and pod.slot is self._opening.setting.objects.leader

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def _draw(self, at_once: bool = False) -> None:
        if self._screen is None or self._opening is None or not (at_once or time.monotonic() - self._last_line >= LIVE_SECONDS):
            return
        self._last_line, log = time.monotonic(), self._training
        bar = Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(log.target_samples, log.samples or 0, width=BAR), Text(describe_progress(log)))
        self._screen.draw(self._pods.lines(target_steps(log)), *([bar] if log.step is not None else []))

    def _progress(self) -> None:
        if self._screen is not None:
            self._draw()
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            self._say(describe_progress(self._training))

    def _milestone(self, event: Event) -> None:
        log = self._training
        match event.name:
            case "run_started":
                ranks = "1 rank" if log.world_size == 1 else f"{log.world_size} ranks"
                self._say(f"training from step {log.step}: {ranks}, {log.global_batch} samples a step")
            case "restored":
                self._say(f"resumed from step {log.restored_step}: {escape(log.checkpoint or '')}")
            case "checkpoint_committed":
                self._say(f"step {log.committed_step} is committed")
            case "evaluated" if log.accuracy is not None:
                self._say(f"step {log.step}: held-out accuracy {log.accuracy:.1%}")
            case _:
                self._say(escape(event.text))

    @property
    def _training(self) -> TrainingLog:
        return self._opening.training if self._opening else TrainingLog()


def target_steps(log: TrainingLog) -> int | None:
    return int(-(-log.target_samples // log.global_batch)) if log.target_samples and log.global_batch else None


def describe_progress(log: TrainingLog) -> str:
    """``step 120 of 900  loss 0.312  accuracy 91.0%  1830 samples/s``."""
    steps = target_steps(log)
    parts = [f"step {log.step}{f' of {steps}' if steps else ''}"]
    if log.last_loss is not None:
        parts.append(f"loss {log.last_loss:.3f}")
    if log.accuracy is not None:
        parts.append(f"accuracy {log.accuracy:.1%}")
    if log.samples_per_second is not None:
        parts.append(f"{log.samples_per_second:.0f} samples/s")
    return "  ".join(parts)


def describe_end(end: PodEnd) -> str:
    """Exit codes, with the reasons that the termination messages give."""
    parts = []
    for container in end.containers:
        message = termination_message(container)
        text = f"exit code {container.exit_code}"
        if message is not None:
            text += f" ({message.reason}{': ' + message.cause.message if message.cause else ''})"
        elif container.message.strip():
            lines = [line for line in container.message.splitlines() if any(character.isalpha() for character in line)]
            text += f": {lines[-1].strip()[:LONGEST_MESSAGE]}" if lines else ""
        parts.append(text if len(end.containers) == 1 else f"{container.name} {text}")
    return ", ".join(parts)


def print_outcome(console: Console, outcome: Outcome, workspace: Path) -> None:
    """Print what came of it, and where its logs and checkpoints are; of a failure no more than five lines."""
    style = {"Complete": "green", "Failed": "red", "Stopped": "yellow"}[outcome.status]
    headline = f"\n[bold {style}]{outcome.status}[/]: {escape(outcome.reason)}, {escape(outcome.message)}"
    console.print(headline, highlight=False, soft_wrap=True)
    rows = _failure(outcome, workspace) if outcome.status == "Failed" else _results(outcome, workspace)
    for name, text in (*rows, *outcome.verdict.rows()):
        console.print(f"  [dim]{escape(name):<18}[/] {escape(text)}", highlight=False, soft_wrap=True)
    if outcome.status == "Stopped" and not outcome.verdict.not_compared:
        step = outcome.committed_step
        console.print("No step is known to be committed." if step is None else
                      f"Step {step} is committed: rehearse again to resume from it.", highlight=False)
    elif outcome.was_complete:
        console.print("The run was complete before: rehearse with --fresh to train again.", highlight=False)


def as_document(outcome: Outcome) -> dict[str, Any]:
    """For another program: how the run ended, and what became of each fault."""
    return {
        "status": outcome.status, "reason": outcome.reason, "message": outcome.message, "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 1), "step": outcome.verdict.progress.step, "committed_step": outcome.committed_step,
        "pods": [{"pod": end.pod, "exit_codes": {one.name: one.exit_code for one in end.containers}} for end in outcome.pods],
        **outcome.verdict.as_json(),
    }  # fmt: skip


def _results(outcome: Outcome, workspace: Path) -> Iterator[tuple[str, str]]:
    log = outcome.training
    if log.first_loss is not None and log.last_loss is not None:
        yield "loss", f"{log.first_loss:.3f} -> {log.last_loss:.3f} (steps {log.first_step} to {log.step})"
    if log.accuracy is not None:
        yield "held-out accuracy", f"{log.accuracy:.1%}"
    if log.checkpoint is not None:
        yield "checkpoint", log.checkpoint
    yield "duration", f"{outcome.seconds:.0f} s"
    yield from ((f"pod {end.pod}", describe_end(end)) for end in outcome.pods)
    yield "logs", str(workspace / "pods")


def _failure(outcome: Outcome, workspace: Path) -> Iterator[tuple[str, str]]:
    """Who failed first, in its own words, how far the training was, and where the rest is."""
    logs, first = workspace / "pods", first_failure(outcome.pods)
    if first is not None and (container := first.failed_container) is not None:
        logs = logs / first.pod / f"{container.name}.log"
        yield "failed first", f"pod {first.pod}, container {container.name}: exit code {container.exit_code}"
        yield "it said", _own_words(container, logs)
    step, committed = outcome.training.step, outcome.committed_step
    reached = "no step was logged" if step is None else f"step {step} was reached"
    kept = "none is committed" if committed is None else f"step {committed} is committed"
    known = any(message.code == ExitCode.NO_PROGRESS for message in outcome.termination_messages)
    yield "training", f"{reached}, {kept}{'; attempts of earlier rehearsals count too: --fresh forgets them' if known else ''}"
    yield "log" if logs.suffix else "logs", str(logs)


def first_failure(pods: Sequence[PodEnd]) -> PodEnd | None:
    """The end that the others followed: one that ends a run for good, else the earliest of those that do not speak of a peer."""

    def follows(end: PodEnd) -> tuple[bool, bool]:
        container = end.failed_container
        message = termination_message(container) if container else None
        code = message.code if message else None
        permanent = any(row.code == code and row.disposition is Disposition.PERMANENT for row in EXIT_CODES.values())
        return not permanent, code in _CONSEQUENCES

    return min((end for end in pods if not end.succeeded), key=follows, default=None)


_CONSEQUENCES = (ExitCode.PEER_LOST, ExitCode.PEERS_NEVER_CAME, ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)


def _own_words(container: ContainerEnd, log: Path) -> str:
    """Its termination message; else the first line of its log that speaks of an error, else the last one."""
    message = termination_message(container)
    if message is not None:
        return f"{message.reason}{': ' + message.cause.message if message.cause else ''}"[:LONGEST_MESSAGE]
    said = map(str.strip, (container.message or _read(log)).splitlines())
    lines = [line.strip(BOX_SIDE) for line in said if any(map(str.isalpha, line)) and not line.startswith(BOX_EDGES)]
    errors = (found[0] for line in lines if (found := ERROR.search(line)))
    return next(errors, lines[-1] if lines else "nothing")[:LONGEST_MESSAGE]


def _read(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def escape(text: str) -> str:
    """Text that is no markup of ours, and steers no terminal."""
    return markup.escape(visible(text))


def _print_plain(console: Console, text: str) -> None:
    text = "\n".join(map(visible, text.split("\n")))
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_problems(console: Console, error: CannotWorkError) -> None:
    """Print every reason, each with what to do."""
    console.print(f"[bold red]{error.headline}:[/]", highlight=False)
    for problem in error.problems:
        console.print(f"  {escape(problem.where)}: {escape(problem.message)}", highlight=False, soft_wrap=True)
        console.print(f"    [dim]{escape(problem.fix)}[/]", highlight=False, soft_wrap=True)
