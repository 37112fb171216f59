"""``trainwright apply``: make in a cluster what ``dist/`` says."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, NoReturn

import typer

from trainwright.apply.cluster import WrongClusterError, cluster_uid, demand_cluster
from trainwright.apply.inventory import Inventory
from trainwright.apply.plan import Plan, named
from trainwright.apply.prepare import Prepared, prepare
from trainwright.apply.repository import commit, project_name
from trainwright.apply.work import Apply
from trainwright.cli.session import Exit, ProjectOption, fail, no_such, open_sources, output, say, stop, today, watched
from trainwright.findings import Severity
from trainwright.live.kubectl import Kubectl, KubectlError, Reason, current_context
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project
from trainwright.project.processors import over_processors
from trainwright.project.record import Records
from trainwright.project.scope import obstacles
from trainwright.project.status import compare, compare_runs, last_records
from trainwright.review.side import SideError
from trainwright.review.text import text
from trainwright.units import some


def command(
    place: Annotated[str, typer.Argument(metavar="CLUSTER[/NAMESPACE]", help="A profile, or one of its namespaces.")],
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Only these runs; default: all.")] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Of kubectl; default: its current one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for what is deleted.")] = 600,
    project: ProjectOption = None,
) -> None:
    """Make in a cluster what dist/ says, where no Argo CD does, by kubectl and your own context.

    Says first what it would make, change, remove and restart, and asks. It removes only what it has made, and no claim, namespace
    or data. What is removed has ended before anything starts in its place. Ends with 1 where something is refused or is left to
    do; the next call goes on from there.
    """
    where, sources = open_sources(project)
    cluster, _, namespace = place.partition("/")
    if cluster not in sources.clusters:
        stop(no_such("cluster profile", cluster, sources.clusters))
    profile = sources.clusters[cluster].cluster
    if namespace and namespace not in profile.namespaces:
        stop(no_such(f"namespace of {cluster}", namespace, profile.namespaces))
    try:
        head, name = commit(where.root), project_name(where.root)
        records = last_records(where)
        build = build_project(sources, today(), records, watched, over_processors)
        namespaces = [namespace] if namespace else list(profile.namespaces)
        _demand_fresh(where, build, records, [f"{cluster}/{one}" for one in namespaces])
        kubectl = Kubectl(context or current_context())
        _demand_cluster(kubectl, cluster, profile.uid, chosen=context is not None or not yes)
        prepared = [
            prepare(where.root, build, replace(kubectl, namespace=one), Inventory(name, cluster, one), runs or (),
                    (f"{cluster}/{one} (context {kubectl.context})", head[:12]))
            for one in namespaces
        ]
        known = frozenset[str]().union(*(one.known for one in prepared))
        for run in runs or ():
            if run not in known:
                stop(no_such(f"run in {place}", run, sorted(known)))
        _show(prepared)
        if not dry_run:
            _act(prepared, head, asks=not yes, seconds=timeout)
    except (SideError, WrongClusterError) as error:
        stop(f"trainwright apply: {error}", Exit.FINDINGS)
    except KubectlError as error:
        _stop_for(error)


def _stop_for(error: KubectlError) -> NoReturn:
    refused = error.reason in (
        Reason.CHANGED, Reason.CONFLICT, Reason.REFUSED, Reason.UNASKED, Reason.STUCK, Reason.UNSERVED, Reason.NOT_FOUND,
    )
    stop(f"trainwright apply: {error}", Exit.FINDINGS if refused else Exit.ENVIRONMENT)


def _demand_fresh(project: Project, build: Build, records: Records, places: Collection[str]) -> None:
    """End the command where a file that would be applied is not what its run compiles to."""
    runs = {name for name, one in build.users.items() if f"{one.file.run.cluster}/{one.file.run.namespace}" in places}
    runs |= {name for name, one in build.done.items() if f"{one.run.cluster}/{one.run.namespace}" in places}
    runs |= {name for name, one in records.runs.items() if f"{one.facts.get('cluster')}/{one.facts.get('namespace')}" in places}
    clusters = {place.partition("/")[0] for place in places}
    found = [*obstacles(project, build, records).of(runs), *compare_runs(project, build, records, runs)]
    for one in compare(project, build, records):
        path = PurePath(one.where.file or "")
        below = "/".join(path.parts[1:3]) if path.parts[:1] == ("dist",) else ""
        if below in places or (path.parent.name == "clusters" and path.stem in clusters):
            found.append(one)
    errors = [one for one in dict.fromkeys(found) if one.severity is Severity.ERROR]
    if errors:
        fail(errors)


def _demand_cluster(kubectl: Kubectl, cluster: str, uid: str | None, *, chosen: bool) -> None:
    """End the command where the context leads to another cluster, or where nobody says that it leads to this one."""
    if uid is not None:
        demand_cluster(kubectl, cluster, uid)
        return
    try:
        line = f"uid: {cluster_uid(kubectl)}"
    except KubectlError as error:
        if error.reason is not Reason.FORBIDDEN:
            raise
        line = "uid: …"  # who may apply need not be allowed to see kube-system
    if not chosen:
        stop(f"profile {cluster} does not say which cluster it is of: with --yes, name the context with --context, or write "
             f"`{line}` into the profile, if context {kubectl.context} is the right one", Exit.FINDINGS)
    say(f"context {kubectl.context} is taken for {cluster}; `{line}` in its profile would make sure of it\n")


def _show(prepared: Sequence[Prepared]) -> None:
    """What would be done; ends the command where something is in its way."""
    for one in prepared:
        output("\n".join(_lines(one)))
    refused = [reason for one in prepared for reason in one.plan.refused]
    if refused:
        stop("\n".join(["", *(f"refused: {reason}" for reason in refused), "nothing was done"]), Exit.FINDINGS)


def _lines(one: Prepared) -> Iterator[str]:
    if one.plan or one.plan.refused:
        yield text(one.review)
        yield ""
        yield from _objects(one.plan)
    else:
        yield f"{one.review.base}: nothing to do, it has all {len(one.plan.same)} objects of {one.review.head}"
    yield from (f"note: {note}" for note in one.plan.notes)


def _objects(plan: Plan) -> Iterator[str]:
    """The objects themselves, which the words above are about."""
    made, changed = ([named(one.manifest) for one in some_of] for some_of in (plan.make, plan.change))
    for verb, names in (("makes", made), ("changes in place", changed), ("removes", [named(one.live) for one in plan.remove])):
        if names:
            yield f"{verb} {len(names)}: {some(names)}"
    if plan.same:
        yield f"leaves {len(plan.same)} as they are"


def _act(prepared: Sequence[Prepared], head: str, *, asks: bool, seconds: float) -> None:
    if asks and any(one.plan for one in prepared):
        if not sys.stdin.isatty():
            stop("nobody is here to be asked: look at it with --dry-run, and apply it with --yes")
        if not typer.confirm("\nDo it?", err=True):
            raise typer.Exit(Exit.FINDINGS)
    problems = []
    for one in prepared:
        work = Apply(one.kubectl, one.plan, one.inventory, one.live, one.resources, head, one.rivals, seconds, say)
        if one.plan:
            problems += work()
        else:
            work.settle()
    if problems:
        stop("\n".join(["", *problems]), Exit.FINDINGS)
