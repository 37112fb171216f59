"""``trainwright init``: a new run, from flags or questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import Exit, ProjectOption, open_project, output, say, show, stop, today
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.project import Project, RunFile, Sources, build_run, load_sources
from trainwright.project.build import demand_profile
from trainwright.project.record import digest
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.report.plan import plan_lines
from trainwright.run import Run
from trainwright.starter.run import Starter, starter_text

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
) -> None:
    """Write a new run that compiles, to be made your own.

    It goes to charts/runs/NAME.yaml. What no flag gives is asked on a terminal, and has a default elsewhere.
    """
    where = open_project(project)
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or len(name) > 40:
        stop(f"{name!r} is not a run name: at most 40 lower case letters, digits and dashes, starting with a letter")
    path = where.runs / f"{name}.yaml"
    for taken in (path, path.with_suffix(".yml"), path.with_name(f"{name.replace('-', '_')}.py")):
        if taken.exists():
            stop(f"{where.shown(taken)} already exists; choose another name, or edit it")
    sources = load_sources(where)
    text = starter_text(_ask(sources, name, cluster, namespace, team, image, claim, nodes, gpus))
    compiled = _compile(text, path, where, sources)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    output("\n".join(plan_lines(compiled)))
    say(f"wrote {where.shown(path)}; next: edit it, then `trainwright plan {name}` and `trainwright synth`")


def _ask(
    sources: Sources,
    name: str,
    cluster: Answer,
    namespace: Answer,
    team: Answer,
    image: Answer,
    claim: Answer,
    nodes: int | None,
    gpus: int | None,
) -> Starter:
    clusters = sources.clusters
    if not clusters:
        show(sources.findings)
        stop("there is no cluster profile in charts/clusters that can be read; write one first, then run this again")
    chosen = choose("cluster", cluster, list(clusters))
    profile = clusters[chosen].cluster
    space = choose("namespace", namespace, list(profile.namespaces))
    writable = [key for key, value in profile.namespaces[space].claims.items() if value.access != "ReadOnlyMany"]
    largest = max((pool.gpu.per_node for pool in profile.node_pools.values() if pool.gpu), default=0)
    registry = profile.registries[0] if profile.registries else "registry.example.com"
    return Starter(
        name=name,
        cluster=chosen,
        namespace=space,
        team=team or _question("team", "research"),
        claim=choose("claim", claim, writable),
        image=image or _question("image", f"{registry}/trainwright/trainer:latest"),
        nodes=nodes or int(_question("nodes", "2", _between(1, 4096))),
        gpus=gpus if gpus is not None else int(_question("GPUs on each node", str(largest), _between(0, 16))),
    )


def choose(what: str, given: Answer, known: list[str]) -> str:
    if not known:
        stop(f"the profile has no {what}; add one to charts/clusters")
    value = given or _question(what, known[0], _one_of(what, known))
    if value not in known:
        stop(f"there is no {what} {value}; use one of: {', '.join(known)}")
    return value


def _question(what: str, default: str, check: Callable[[str], str] = str) -> str:
    """Asked on a terminal, until the answer fits; elsewhere the default is taken."""
    return str(typer.prompt(what, default=default, value_proc=check)) if sys.stdin.isatty() else default


def _one_of(what: str, known: list[str]) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if answer not in known:
            raise typer.BadParameter(f"there is no {what} {answer}; use one of: {', '.join(known)}")
        return answer

    return check


def _between(low: int, high: int) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if not re.fullmatch(r"[0-9]{1,9}", answer) or not low <= int(answer) <= high:
            raise typer.BadParameter(f"{answer} is not a whole number from {low} to {high}")
        return answer

    return check


def _compile(text: str, path: Path, project: Project, sources: Sources) -> CompiledRun:
    """The new run, before it is written: an answer that cannot be leaves no file behind."""
    shown = project.shown(path)
    try:
        document = parse_yaml(text, shown)
        file = RunFile(path, shown, validate(Run, document), document.positions, digest(text.encode()))
        demand_profile(sources, file.run.cluster)
        return build_run(file, sources, today()).compiled
    except CompileError as error:
        show(error.findings)
        stop(f"{shown} was not written", Exit.FINDINGS)
