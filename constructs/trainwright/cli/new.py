"""``trainwright new``: a project of one's own."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.init import choose
from trainwright.cli.session import Detail, output, say, stop
from trainwright.cli.synth import write
from trainwright.cluster import Cluster
from trainwright.findings import CompileError
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.starter.discovery import KUBECTL, DiscoveryError, discovered_profile
from trainwright.starter.files import FIRST_RUN, cluster_kinds, project_files
from trainwright.starter.run import Starter, starter_text

IGNORED = {".git"}
"""What may be in the folder already."""


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder: a new one, or an empty one.")],
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
) -> None:
    """Make a project: a cluster's profile, a run that compiles, its YAML, and what CI, Argo CD and editors need.

    The profile is of a kind of cluster, or read off one of yours. What is asked on a terminal has a default elsewhere.
    """
    taken = sorted(path.name for path in folder.iterdir() if path.name not in IGNORED) if folder.is_dir() else []
    if taken or (folder.exists() and not folder.is_dir()):
        stop(f"{folder} is not empty: it has {', '.join(taken[:3]) or 'a file of that name'}; name a new folder")
    if cluster is not None and discovered is not None:
        stop("--cluster and --from contradict each other: a profile is of a kind of cluster, or read off one")
    kind, text = _kind(cluster) if discovered is None else ("cluster", "")
    name = name or kind
    text = text.replace(f"cluster: {kind}\n", f"cluster: {name}\n", 1) if discovered is None else _read(name, discovered)
    profile = _profile(name, text)
    namespace = next(iter(profile.namespaces))
    files = project_files(name, text, namespace, starter_text(_starter(profile, namespace)))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.resolve().name}.", dir=folder.resolve().parent) as scratch:
        _write(files, Path(scratch))
        write(Path(scratch), Detail.QUIET)
        folder.mkdir(exist_ok=True)
        for made in Path(scratch).iterdir():
            os.replace(made, folder / made.name)
    for path in sorted({*files, "charts/lock/", "dist/"}):
        output(f"{folder / path}")
    say(
        f"\n{folder} compiles. Look at {folder / 'charts/clusters' / name}.yaml, then:\n"
        f"  cd {folder}\n"
        f"  trainwright plan {FIRST_RUN}       # every number of the run, with its reason\n"
        f"  trainwright rehearse {FIRST_RUN}   # its pods, as processes on this machine\n"
        f"  trainwright init my-run          # the next run, by questions"
    )


def _kind(given: str | None) -> tuple[str, str]:
    kinds = cluster_kinds()
    if given is None and sys.stdin.isatty():
        for kind, text in kinds.items():
            output(f"  {kind:<16}{text.split('. ')[0].removeprefix('# ')}")
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
        image=f"{profile.registries[0]}/trainwright/trainer:latest", gpus=pool.gpu.per_node if pool.gpu else 0,
    )


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
