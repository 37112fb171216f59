"""What the page shows, as plain JSON: a row for each run, what stands behind it, and what changes for several of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.explain import Explainer
from trainwright.findings import CompileError, Finding, Severity
from trainwright.page.drawing import drawing
from trainwright.project.built import Build, BuiltRun
from trainwright.project.load import Project
from trainwright.project.record import RunRecord
from trainwright.report.finding import to_json
from trainwright.report.plan import plan_rows
from trainwright.review.model import Review, RunReview, SharedReview
from trainwright.units import some

Data = dict[str, Any]


def rows(build: Build, changes: Mapping[str, RunReview]) -> list[Data]:
    """One for each run of the project, and for each that has left it, by name: what the list shows and is searched by."""
    known = [_row(name, built, build) for name, built in build.users.items()]
    known += [_bare(name, "done", file.run.team, file.run.cluster, file.run.queue) for name, file in build.done.items()]
    known += [_bare(name, "does not compile") for name in build.failures if name not in build.users]
    there = {row["run"] for row in known}
    known += [_gone(name, change) for name, change in changes.items() if name not in there]
    for row in known:
        change = changes.get(row["run"])
        row["change"] = change.change.words if change else ""
    return sorted(known, key=lambda row: str(row["run"]))


def _row(name: str, built: BuiltRun, build: Build) -> Data:
    run, plan = built.file.run, built.compiled.plan
    errors = len(build.failures.get(name, ()))
    state = "held" if built.held and run.state == "active" else "does not compile" if errors else run.state
    warnings = sum(one.severity is Severity.WARNING for one in built.compiled.findings)
    return {
        **_bare(name, state, run.team, run.cluster, run.queue),
        "gpus": built.compiled.resolution.gpus,
        "nodes": plan.world.nodes,
        "topology": plan.topology,
        "target": plan.target_title,
        "warnings": warnings,
    }


def _gone(name: str, change: RunReview) -> Data:
    """A run without a file, as its last record had it."""
    facts = change.before.facts if change.before else {}
    return _bare(name, "gone", *(str(facts.get(key, "")) for key in ("team", "cluster", "queue")))


def _bare(name: str, state: str, team: str = "", cluster: str = "", queue: str | None = None) -> Data:
    empty = {"gpus": 0, "nodes": 0, "topology": "", "target": "", "warnings": 0}
    return {"run": name, "state": state, "team": team, "cluster": cluster, "queue": queue or "", **empty}


def details(project: Project, build: Build, name: str, change: RunReview | None, records: Mapping[str, RunRecord]) -> Data:
    """What stands behind a row. A run that does not compile has its findings alone."""
    built = build.users.get(name)
    data: Data = {"findings": to_json(_findings(build, name, built)), "change": _change(change)}
    if built is None:
        return data
    waivers = [f"{one.code} until {one.expires}: {one.reason}" for one in built.file.run.waivers]
    held = [f"held as {name}-{built.identity}: {built.held.hold.why}"] if built.held else []
    others = [one.facts for other, one in records.items() if other != name and one.state == "active"]
    rows = list(plan_rows(built.compiled, others))
    return {
        **data, "name": built.compiled.plan.name, "file": built.file.name, "remarks": [*held, *waivers], "plan": rows,
        "drawing": drawing(built.compiled), "yaml": _yaml(project, built),
    }


def _findings(build: Build, name: str, built: BuiltRun | None) -> Sequence[Finding]:
    own = built.compiled.findings if built else ()
    return tuple(dict.fromkeys((*build.failures.get(name, ()), *own)))


def _change(change: RunReview | None) -> Data | None:
    if change is None:
        return None
    said = f"{change.change.words}; training {change.training}"
    return {"class": said, "outcome": change.outcome, "cause": change.cause, **_differences(change)}


def shared(review: Review) -> list[Data]:
    """What changes for several runs, and files that are not what their records say."""
    return [
        {"title": one.title, "risk": one.risk, "effect": one.effect, "runs": some(one.runs), **_differences(one)}
        for one in review.shared
    ]


def _differences(of: RunReview | SharedReview) -> Data:
    """Rows of what there was and is."""
    facts = [[one.label, _said(one.before), _said(one.after)] for one in of.facts]
    fields = [[f"{one.object} {one.path}".rstrip(), _said(one.before), _said(one.after)] for one in of.fields]
    return {"facts": facts, "fields": fields}


def _said(value: object) -> str:
    return "" if value is None else str(value)


def _yaml(project: Project, built: BuiltRun) -> Data | None:
    """The lines of its file in ``dist/``, and for each the number of its reason; None where there is no such file yet."""
    path = project.dist / built.output.path
    if not path.is_file():
        return None
    text, shown = path.read_text(encoding="utf-8"), project.shown(path)
    try:
        answers = list(_reasons(Explainer(text, shown, built.output)))
    except CompileError as error:  # edited by hand, or not yet written as it compiles
        answers = [error.findings[0].message] * len(text.splitlines())
    numbers = {reason: number for number, reason in enumerate(dict.fromkeys(answers))}
    return {"file": shown, "lines": text.splitlines(), "reasons": list(numbers), "why": [numbers[reason] for reason in answers]}


def _reasons(explainer: Explainer) -> Iterator[str]:
    for answer in explainer.all():
        yield f"{answer.reason} ({answer.where})" if answer.where else answer.reason
