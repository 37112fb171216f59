"""``trainwright init``: a new run, from flags or questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright.cli.session import Exit, ProjectOption, no_such, open_project, output, say, show, stop, today
from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding, Severity
from trainwright.operators import TARGETS
from trainwright.project.build import build_run, demand_profile
from trainwright.project.load import Project, RunFile, Sources, load_sources
from trainwright.project.record import digest
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.report.plan import plan_lines
from trainwright.run import Run
from trainwright.starter.run import ONLY_COMMANDS, TOPOLOGIES, WORKLOADS, Starter, starter_text, trainer_image

Answer = str | None


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the run: lower case letters, digits and dashes.")],
    project: ProjectOption = None,
    cluster: Annotated[Answer, typer.Option(help="A profile in charts/clusters.")] = None,
    namespace: Annotated[Answer, typer.Option(help="A namespace of the cluster.")] = None,
    team: Annotated[Answer, typer.Option(help="Who owns the run.")] = None,
    image: Annotated[Answer, typer.Option(help="The trainer's image, pinned by digest.")] = None,
    claim: Annotated[Answer, typer.Option(help="The claim for checkpoints.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=4096, help="Pods, one a node.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, max=16, help="GPUs on each node; 0 for CPUs.")] = None,
    topology: Annotated[Answer, typer.Option(help=f"How it is distributed: {', '.join(TOPOLOGIES)}.")] = None,
    workload: Annotated[Answer, typer.Option(help=f"What the ranks do: {', '.join(WORKLOADS)}.")] = None,
    target: Annotated[Answer, typer.Option(help=f"Which object carries it: {', '.join(TARGETS)}.")] = None,
) -> None:
    """Write a new run that compiles, to be made your own.

    It goes to charts/runs/NAME.yaml. What no flag gives is asked on a terminal, and has a default elsewhere. Choices are those
    that the cluster can carry.
    """
    where = open_project(project)
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or len(name) > 40:
        stop(f"{name!r} is not a run name: at most 40 lower case letters, digits and dashes, starting with a letter")
    path = where.runs / f"{name}.yaml"
    for taken in (path, path.with_suffix(".yml"), path.with_name(f"{name.replace('-', '_')}.py")):
        if taken.exists():
            stop(f"{where.shown(taken)} already exists; choose another name, or edit it")
    sources = load_sources(where)
    if name in sources.runs:
        stop(f"{sources.runs[name].name} has a run {name} already; choose another name")
    given = {"team": team, "image": image, "nodes": nodes, "gpus": gpus}
    chosen = {"topology": topology, "workload": workload, "target": target}
    drafts = Drafts(where, path, sources)
    text = starter_text(_asked(drafts, _first(drafts, name, cluster, namespace, claim), given, chosen))
    try:
        compiled = drafts.compiled(text)
    except CompileError as error:
        show(error.findings)
        stop(f"{where.shown(path)} was not written", Exit.FINDINGS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    output("\n".join(plan_lines(compiled)))
    say(f"wrote {where.shown(path)}; next: edit it, then `trainwright plan {name}` and `trainwright synth`")


@dataclass(frozen=True, eq=False)
class Drafts:
    """Compiles what a run could be, before any of it is written."""

    project: Project
    path: Path
    sources: Sources

    def compiled(self, text: str) -> CompiledRun:
        """Raises :class:`CompileError` with the findings of the text."""
        shown = self.project.shown(self.path)
        document = parse_yaml(text, shown)
        document = self.sources.defaults.merged(document) if self.sources.defaults else document
        file = RunFile(self.path, shown, validate(Run, document), document.positions, digest(text.encode()), document.defaulted)
        demand_profile(self.sources, file.run.cluster)
        return build_run(file, self.sources, today()).compiled

    @cache  # noqa: B019 - of one command
    def errors(self, starter: Starter) -> tuple[Finding, ...]:
        try:
            self.compiled(starter_text(starter))
        except CompileError as error:
            return tuple(finding for finding in error.findings if finding.severity is Severity.ERROR)
        return ()

    def carried(self, starter: Starter) -> Starter | None:
        """The first choice of workload and target, where the starter has none, that compiles."""
        profile = self.sources.clusters[starter.cluster].cluster
        targets = (starter.target,) if starter.target else (None, *(name for name in TARGETS if name != profile.default_target))
        choices = (replace(starter, workload=work, target=target) for work in WORKLOADS for target in targets)
        return next((choice for choice in choices if not self.errors(choice)), None)

    def first(self, starter: Starter) -> Starter | None:
        """The first topology of which the cluster carries something."""
        return next((fits for kind in TOPOLOGIES if (fits := self.carried(replace(starter, topology=kind)))), None)


def _first(drafts: Drafts, name: str, cluster: Answer, namespace: Answer, claim: Answer) -> Starter:
    """Where the run goes, and defaults for all the rest."""
    clusters = drafts.sources.clusters
    if not clusters:
        show(drafts.sources.findings)
        stop("there is no cluster profile in charts/clusters that can be read; write one first, then run this again")
    chosen = choose("cluster", cluster, list(clusters))
    profile: Cluster = clusters[chosen].cluster
    space = choose("namespace", namespace, list(profile.namespaces))
    claims = [key for key, value in profile.namespaces[space].claims.items() if value.access != "ReadOnlyMany"]
    return Starter(
        name=name,
        cluster=chosen,
        namespace=space,
        team="research",
        claim=choose("claim", claim, claims) if claims or claim else None,
        image=trainer_image(profile),
        nodes=2,
        gpus=max((pool.gpu.per_node for pool in profile.node_pools.values() if pool.gpu), default=0),
    )


QUESTIONS = {"team": "team", "image": "image", "nodes": "nodes", "gpus": "GPUs on each node"}


def _asked(drafts: Drafts, starter: Starter, given: dict[str, Any], chosen: dict[str, Answer]) -> Starter:
    """One answer after the other: each is held against the cluster when it is given."""
    starter = drafts.first(starter) or starter
    for key, what in QUESTIONS.items():
        answer = given[key]
        if answer is None:
            answer = _question(what, str(getattr(starter, key)), _fits(drafts, starter, key))
        starter = _with(starter, key, str(answer))
    return _choices(drafts, starter, chosen)


def _with(starter: Starter, key: str, answer: str) -> Starter:
    value: Any = int(answer) if key in ("nodes", "gpus") else answer
    return replace(starter, **{key: value})


def _choices(drafts: Drafts, starter: Starter, chosen: dict[str, Answer]) -> Starter:
    """Topology, workload and target, in this order: on a terminal of each those that something of the rest can follow."""
    asked, target = sys.stdin.isatty(), chosen["target"]
    starter = replace(starter, target=target and choose("target", target, list(TARGETS)))
    if (kind := chosen["topology"]) or not asked:
        starter = replace(starter, topology=choose("topology", kind or starter.topology, list(TOPOLOGIES)))
    else:
        carried = [kind for kind in TOPOLOGIES if drafts.carried(replace(starter, topology=kind))]
        starter = replace(starter, topology=_choice("topology", carried, starter.topology))
    default = "command" if starter.topology in ONLY_COMMANDS else starter.workload
    if (work := chosen["workload"]) or not asked:
        starter = replace(starter, workload=choose("workload", work or default, list(WORKLOADS)))
    else:
        carried = [work for work in WORKLOADS if _targets(drafts, replace(starter, workload=work))]
        starter = replace(starter, workload=_choice("workload", carried, default))
    if target:
        return starter
    default = drafts.sources.clusters[starter.cluster].cluster.default_target
    picked = _choice("target", _targets(drafts, starter), default)
    return replace(starter, target=None if picked == default else picked)


def _targets(drafts: Drafts, starter: Starter) -> list[str]:
    """Those that carry it, the profile's default first."""
    default = drafts.sources.clusters[starter.cluster].cluster.default_target
    names = (starter.target,) if starter.target else (default, *(name for name in TARGETS if name != default))
    return [name for name in names if not drafts.errors(replace(starter, target=name))]


def _choice(what: str, carried: list[str], default: str) -> str:
    """One of what the cluster carries; the default where it carries none, and the compiler then says what stands in the way."""
    if len(carried) < 2:
        return next(iter(carried), default)
    if sys.stdin.isatty():
        output(f"{what}: {', '.join(carried)}")
    return _question(what, carried[0], _one_of(what, carried))


def choose(what: str, given: Answer, known: list[str]) -> str:
    if not known:
        stop(f"the profile has no {what}; add one to charts/clusters")
    value = given or _question(what, known[0], _one_of(what, known))
    if value not in known:
        stop(no_such(what, value, known))
    return value


def _question(what: str, default: str, check: Callable[[str], str]) -> str:
    """Asked on a terminal, until the answer fits; elsewhere the default is taken."""
    return str(typer.prompt(what, default=default, value_proc=check)) if sys.stdin.isatty() else default


def _one_of(what: str, known: list[str]) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if answer not in known:
            raise typer.BadParameter(no_such(what, answer, known))
        return answer

    return check


def _fits(drafts: Drafts, starter: Starter, key: str) -> Callable[[str], str]:
    """A check by the compiler, with everything else as it is so far; what was wrong before is not this answer's fault."""

    def check(answer: str) -> str:
        if key in ("nodes", "gpus") and not re.fullmatch(r"[0-9]{1,9}", answer):
            raise typer.BadParameter(f"{answer} is not a whole number")
        wrong = list(_new_errors(drafts, starter, _with(starter, key, answer)))
        if wrong:
            raise typer.BadParameter("; ".join(wrong))
        return answer

    return check


def _new_errors(drafts: Drafts, before: Starter, after: Starter) -> Iterator[str]:
    known = {finding.code for finding in drafts.errors(before)}
    for finding in drafts.errors(after):
        if finding.code not in known:
            yield f"{finding.message}; {finding.fix}"
