"""Where runs stand, one line each: state, step, rate and time to go, attempts, last commit and goodput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.live.case import Case
from trainwright.live.ends import ends_of
from trainwright.live.runs import Expected, case_for, strangers
from trainwright.live.scrape import scrape_of
from trainwright.live.snapshot import Snapshot
from trainwright.report.screen import columns
from trainwright.units import counted

COLUMNS = ("run", "state", "pods", "step", "to go", "last commit", "attempts", "goodput", "note")
AT_WORK = ("training", "saving", "evaluating")
"""States between two steps of which the rate of the last ones still holds."""


class Line(NamedTuple):
    """What is known of a run; what is not is None."""

    run: str
    name: str
    state: str
    pods: str
    step: int | None = None
    steps: int | None = None
    """That the run is to have, where its plan states it."""
    step_seconds: float | None = None
    committed_step: int | None = None
    attempts: int | None = None
    goodput: float | None = None
    note: str = ""

    def data(self) -> dict[str, Any]:
        """For machines."""
        return self._asdict() | {"seconds_to_go": self.seconds_to_go}

    @property
    def seconds_to_go(self) -> int | None:
        if self.step is None or self.steps is None or not self.step_seconds or self.state not in AT_WORK:
            return None
        return round(max(self.steps - self.step, 0) * self.step_seconds)

    def cells(self) -> list[str]:
        """As its row of the table."""
        step = "" if self.step is None else f"{self.step:,}{f' of {self.steps:,}' if self.steps else ''}"
        rate = f" at {1 / self.step_seconds:.3g}/s" if self.step_seconds and self.state in AT_WORK else ""
        values = (
            self.run, self.state, self.pods, step + rate, _duration(self.seconds_to_go),
            "" if self.committed_step is None else f"step {self.committed_step:,}",
            "" if self.attempts is None else str(self.attempts), "" if self.goodput is None else f"{self.goodput:.0%}", self.note,
        )  # fmt: skip
        return [value or "-" for value in values]


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return ""
    hours, minutes = divmod(-(-seconds // 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def status_lines(snapshot: Snapshot, runs: Sequence[Expected], every: Sequence[Expected], foreign: bool) -> list[Line]:
    """One for each run of ``dist/``, and for what is in the cluster beside them.

    Args:
        snapshot: of the cluster.
        runs: to show.
        every: of the project, which are no strangers.
        foreign: whether to show what is in the cluster and not in ``dist/``.
    """
    lines = [_line(case_for(snapshot, run), run) for run in runs]
    return lines + [_line(case, None) for case in strangers(snapshot, every)] if foreign else lines


def _line(case: Case, run: Expected | None) -> Line:
    if case.manifest is None and not case.snapshot.asked(case.kind):
        return Line(case.run, case.name, "unknown", "", note=f"nothing is known here of any {case.kind}")
    if case.manifest is None:
        return Line(case.run, case.name, "absent", "", note="in dist/, and not in the cluster")
    scrape, (phase, reason) = scrape_of(case), case.standing
    steps = run.record.facts.get("steps") if run else None
    state = {"suspended": "stopped"}.get(phase, phase)
    if phase == "running" and (scrape.phase or "step" in scrape.values):
        state = scrape.phase.replace("_", " ") or "training"
    note = reason if phase in ("waiting", "starting", "suspended", "failed") else ""
    if phase == "running" and not scrape.values:
        note = "no metrics here: whether it trains is not known"
    if run is None:
        note = f"{case.name} is not in dist/"
    if "deletionTimestamp" in case.manifest["metadata"]:
        state, note = "stopping", "it is being deleted"
    if scrape.phase == "saving" and phase not in ("done", "failed"):  # what is told to end saves first
        state = "saving"
    line = Line(case.run, case.name, state, _pods(case), _whole(scrape.values, "step"), steps if isinstance(steps, int) else None,
                scrape.values.get("step_seconds"), _whole(scrape.values, "committed_step"), _whole(scrape.values, "attempt"),
                scrape.values.get("goodput"), note)
    return line if scrape.values else _by_messages(case, line)


def _whole(values: Mapping[str, float], name: str) -> int | None:
    return int(values[name]) if name in values else None


def _pods(case: Case) -> str:
    ready = sum(pod.state == "ready" for pod in case.pods)
    total = max(case.wanted, len(case.pods))
    return f"{ready}/{total}" if total else ""


def _by_messages(case: Case, line: Line) -> Line:
    """What the pods that ended have left."""
    said = [end.said for pod in case.every_pod for end in ends_of(pod) if end.said]
    for message in sorted(said, key=lambda one: (one.attempts or 0, one.committed_step or 0, one.step or 0)):
        line = line._replace(
            committed_step=line.committed_step if message.committed_step is None else message.committed_step,
            attempts=message.attempts or line.attempts, goodput=message.goodput or line.goodput,
            step=line.step if message.step is None else message.step,
        )  # fmt: skip
    return line


def table(lines: Sequence[Line]) -> list[str]:
    """Rows with their columns below each other; a column that is empty in all of them is left out."""
    return columns([COLUMNS, *(line.cells() for line in lines)])


def summary(lines: Sequence[Line]) -> str:
    """How many runs are in which state."""
    states: dict[str, int] = {}
    for line in lines:
        states[line.state] = states.get(line.state, 0) + 1
    return f"{counted(len(lines), 'run')}: " + ", ".join(f"{number} {state}" for state, number in states.items())
