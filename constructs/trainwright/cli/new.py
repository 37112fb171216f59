"""``trainwright new``: a project of one's own."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.import_ import DRAFTED, account_for, files_of, report, sources_of
from trainwright.cli.init import Drafts, choose
from trainwright.cli.session import Detail, Exit, output, say, stop
from trainwright.cli.synth import write
from trainwright.cluster import Cluster
from trainwright.findings import CompileError
from trainwright.importing.read import read
from trainwright.operators import TARGETS
from trainwright.project.load import Project, load_sources
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.starter.discovery import KUBECTL, DiscoveryError, discovered_profile
from trainwright.starter.files import (
    FIRST_RUN,
    FIRST_RUN_PATH,
    cluster_files,
    cluster_kinds,
    profile_path,
    project_files,
    run_files,
    summary,
)
from trainwright.starter.run import TOPOLOGIES, Starter, starter_text, trainer_image

IGNORED = {".git"}
"""What may be in the folder already."""


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new folder, an empty one, or a project, which gets one more cluster.")
    ],
    cluster: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"The kind of cluster: {', '.join(cluster_kinds())}.")
    ] = None,
    discovered: Annotated[
        typer.FileText | None,
        typer.Option("--from", metavar="FILE", help=f"What `{KUBECTL}` prints, to read a profile off; - for standard input."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the cluster; default: its kind, or `cluster` with --from.")
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="FILE", help="Manifests to make runs and profile of, as `import` does; - for stdin."),
    ] = None,
) -> None:
    """Make a project: a cluster's profile, a run that compiles, its YAML, and what CI, Argo CD and editors need.

    A project that exists gets the profile of one more cluster. The profile is of a kind of cluster, or read off one of yours, and
    its target is one that the cluster has. What is asked on a terminal has a default elsewhere.
    """
    adds = (folder / "charts").is_dir()
    taken = sorted(path.name for path in folder.iterdir() if path.name not in IGNORED) if folder.is_dir() else []
    if not adds and (taken or (folder.exists() and not folder.is_dir())):
        stop(f"{folder} is not empty: it has {', '.join(taken[:3]) or 'a file of that name'}; name a new folder, or a project")
    if imports and (adds or cluster is not None or discovered is not None):
        stop("--import makes a project and its profile; in a project that is there, use `trainwright import`")
    if imports:
        _import(folder, imports, name or DRAFTED)
        return
    if cluster is not None and discovered is not None:
        stop("--cluster and --from contradict each other: a profile is of a kind of cluster, or read off one")
    kind, text = _kind(cluster) if discovered is None else ("cluster", "")
    name = name or kind
    if (folder / profile_path(name)).exists():
        stop(f"{folder / profile_path(name)} is there already: give the new cluster another name with --name")
    text = text.replace(f"cluster: {kind}\n", f"cluster: {name}\n", 1) if discovered is None else _read(name, discovered)
    profile = _profile(name, text)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.resolve().name}.", dir=folder.resolve().parent) as scratch:
        made = _make(Path(scratch), name, text, profile)
        files = cluster_files(name, made.profile) if adds else made.files
        if adds:
            _write(files, folder)
        else:
            _move(Path(scratch), folder)
    for path in sorted(files):
        output(f"{folder / path}")
    where = folder / profile_path(name)
    if made.missing:
        reasons = "".join(f"\n  {reason}" for reason in made.missing)
        say(f"\nThe profile is written, and no run, since nothing that carries one would work on this cluster:{reasons}\n"
            f"Correct {where} if it says something else than the cluster, or install what is missing; then `trainwright init`.")
        raise typer.Exit(Exit.FINDINGS)
    say(f"\n{where} is in the project. Look at it, then:\n{_next(folder, name)}" if adds else
        f"\n{folder} compiles. Look at {where}, then:\n{_first(folder, made)}")


def _import(folder: Path, files: list[str], cluster: str) -> None:
    """A project of what manifests say."""
    from trainwright.importing.bring import bring  # takes its time to load

    sources = sources_of(files)
    brought = bring(read(sources), cluster)
    if not brought.runs:
        report(brought)
        stop(f"nothing in {', '.join(files)} became a run, so there is no project", Exit.FINDINGS)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.resolve().name}.", dir=folder.resolve().parent) as scratch:
        written = {**project_files(cluster, ""), **files_of(brought, cluster), "charts/lock/": "", "dist/": ""}
        _write({path: text for path, text in written.items() if text}, Path(scratch))
        write(Path(scratch), Detail.QUIET)
        _move(Path(scratch), folder)
    for path in sorted(written):
        output(f"{folder / path}")
    report(brought)
    account_for(brought, sources)
    first = brought.runs[0].name
    say(f"\n{folder} compiles. Look at {folder / profile_path(cluster)}, then:\n  cd {folder}\n  trainwright plan {first}")
    if brought.failed:
        raise typer.Exit(Exit.FINDINGS)


def _move(made: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for part in made.iterdir():
        os.replace(part, folder / part.name)


def _next(folder: Path, cluster: str) -> str:
    return (
        f"  cd {folder}\n"
        f"  trainwright init my-run --cluster {cluster}   # a run on it, by questions\n"
        f"  trainwright synth                     # its namespace, claims and runs"
    )


def _first(folder: Path, made: Made) -> str:
    idle = f"  # {FIRST_RUN} says `state: done` and holds no GPUs: remove that line and run `trainwright synth` to rehearse it\n"
    return (
        f"  cd {folder}\n"
        f"  trainwright plan {FIRST_RUN}       # every number of the run, with its reason\n"
        f"{idle if made.gpus else ''}"
        f"  trainwright rehearse {FIRST_RUN}   # its pods, as processes on this machine\n"
        f"  trainwright init my-run          # the next run, by questions"
    )


@dataclass(frozen=True)
class Made:
    """What was made for a cluster."""

    profile: str
    """Its text, with the target that runs get."""
    files: Mapping[str, str]
    """Of a whole project, and what `synth` wrote."""
    gpus: int
    missing: tuple[str, ...] = ()
    """Why each target carries no run; empty where one does."""


def _make(folder: Path, name: str, text: str, profile: Cluster) -> Made:
    """Write a project for a cluster, with the first run in it where one compiles: DDP rather than another topology."""
    namespace = next(iter(profile.namespaces))
    starter, drafts = _starter(profile, namespace), dict[str, Drafts]()
    for written in dict.fromkeys((text, text.replace(*LOWER_LEVEL))):
        _write(project_files(name, written), folder)
        drafts[written] = Drafts(Project(folder), folder / FIRST_RUN_PATH, load_sources(Project(folder)))
    ways = (Drafts.carried, Drafts.first)
    tried = ((written, draft, way(draft, starter)) for way in ways for written, draft in drafts.items())
    written, draft, fits = next((found for found in tried if found[2]), (text, drafts[text], None))
    missing = () if fits else tuple(_missing(draft, starter))
    if fits and fits.target:
        why = draft.errors(starter)[0].message
        written = re.sub(r"(?m)^(kubernetes: .*\n)", rf"\g<1>default_target: {fits.target}  # {why}\n", written, count=1)
    run = run_files(starter_text(replace(fits, target=None)) + (IDLE if fits.gpus else "")) if fits else {}
    files = project_files(name, written) | run
    _write(files, folder)
    with suppress(CompileError):  # of a profile without a run, which `check` repeats
        write(folder, Detail.QUIET)
    return Made(written, {**files, "charts/lock/": "", "dist/": ""}, starter.gpus, missing)


LOWER_LEVEL = (
    "    pod_security: restricted\n",
    "    pod_security: baseline  # restricted refuses a container that the operator adds\n",
)
"""Operators that put containers of their own into pods often fail the level above, which a new profile states as a wish."""


def _missing(drafts: Drafts, starter: Starter) -> Iterator[str]:
    """What is in the way of each target: rather what the cluster lacks than what the target cannot carry."""
    for target in TARGETS:
        kinds = (drafts.errors(replace(starter, target=target, topology=kind)) for kind in TOPOLOGIES)
        errors = [error for found in kinds for error in found]
        errors.sort(key=lambda error: error.code not in ("TW307", "TW313"))
        yield f"{target}: {errors[0].message}"


IDLE = """\
# A toy must hold no GPUs: a run that is done is not in dist/. Remove this line to rehearse or to train it.
state: done
"""


def _kind(given: str | None) -> tuple[str, str]:
    kinds = cluster_kinds()
    if given is None and sys.stdin.isatty():
        for kind, text in kinds.items():
            output(f"  {kind:<16}{summary(text)}")
    chosen = choose("cluster", given, list(kinds))
    return chosen, kinds[chosen]


def _read(name: str, listed: typer.FileText) -> str:
    try:
        return discovered_profile(name, json.load(listed))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        stop(f"{listed.name} is not JSON: {error}")
    except (DiscoveryError, KeyError, TypeError, ValueError) as error:
        words = f"an object in it has no {error}" if isinstance(error, KeyError) else str(error)
        stop(f"no profile can be made from {listed.name}: {words}")


def _profile(name: str, text: str) -> Cluster:
    try:
        return validate(Cluster, parse_yaml(text, f"charts/clusters/{name}.yaml"))
    except CompileError as error:
        stop(f"--name {name}: {error.findings[0].message}; {error.findings[0].fix}")


def _starter(profile: Cluster, namespace: str) -> Starter:
    """The digits, on two nodes of the first pool, or on one where there is no second."""
    pool = next(iter(profile.node_pools.values()))
    (claim, *_) = profile.namespaces[namespace].claims
    return Starter(
        name=FIRST_RUN, team="research", cluster=profile.cluster, namespace=namespace, claim=claim, nodes=min(pool.nodes or 2, 2),
        image=trainer_image(profile), gpus=pool.gpu.per_node if pool.gpu else 0,
    )


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
