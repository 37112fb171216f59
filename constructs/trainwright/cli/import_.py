"""``trainwright import``: runs from manifests of somebody else."""

from __future__ import annotations

import json as encoder
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.runtimes import written
from trainwright.cli.session import Exit, JsonOption, ProjectOption, no_such, open_project, output, say, show, stop
from trainwright.findings.codes import found
from trainwright.findings.locate import dotted, tokens
from trainwright.importing.read import Source, read
from trainwright.importing.secrets import shown
from trainwright.manifest.kinds import GroupKind
from trainwright.project.load import Project, load_sources
from trainwright.reading.document import LARGEST_FILE, Document, read_text
from trainwright.starter.files import MODELINE, profile_path

if TYPE_CHECKING:
    from trainwright.cluster import Cluster
    from trainwright.importing.accounting.runs import Told
    from trainwright.importing.bring import Brought
    from trainwright.importing.words import Data
    from trainwright.reading.defaults import DefaultsFile

DRAFTED = "imported"
CARRIERS = "Job, JobSet, PyTorchJob, TFJob, XGBoostJob, MPIJob, TrainJob, RayJob and Volcano Job, also in an AppWrapper"


def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Manifests, or - for standard input, as of `helm template`.")
    ],
    project: ProjectOption = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="A profile in charts/clusters to fit the runs to; default: one is drafted.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the profile that is drafted.")] = DRAFTED,
    team: Annotated[str | None, typer.Option(help="Who owns the runs; default: what their objects say, else research.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write runs for the objects in manifests, and the profile that they need.

    Reads Job, JobSet, PyTorchJob, TFJob, XGBoostJob, MPIJob, TrainJob with its runtime, RayJob, Volcano Job, and AppWrapper
    around any of them, with what is beside them, and says what became of every value: docs/not-carried.md. Ends with 1 where an
    object could not be carried over.
    """
    where = open_project(project)
    sources = sources_of(files)
    given = read(sources)
    from trainwright.importing.bring import bring  # takes its time to load, and what cannot be read needs none of it

    existing, beneath = _existing(where, profile)
    brought = bring(given, profile or name, existing, team, beneath)
    if not brought.runs and not brought.failed:
        show(brought.notes)
        others = ", ".join(sorted({GroupKind.of(one.data).kind for one in given.around}))
        there = f", but {others}" if others else ""
        stop(f"no object in {', '.join(files)} carries a run{there}; import takes {CARRIERS}", Exit.FINDINGS)
    written = files_of(brought, profile or name)
    taken = [path for path in written if (where.root / path).exists()]
    if taken and not force:
        stop(f"{taken[0]} is there already; nothing is written. Give --force to write over it, or rename what is there")
    for path, text in written.items():
        (where.root / path).parent.mkdir(parents=True, exist_ok=True)
        (where.root / path).write_text(text, encoding="utf-8")
        (say if json else output)(where.shown(where.root / path))
    report(brought)
    (account_as_json if json else account_for)(brought, sources)
    if brought.failed or brought.lacks:
        raise typer.Exit(Exit.FINDINGS)


def account_for(brought: Brought, sources: Sequence[Source]) -> None:
    """What became of every value of the files, for people."""
    from trainwright.importing.accounting.report import to_text

    told = _told(brought, sources)
    show([finding for one in told for finding in one.findings])
    output(to_text(told))


def account_as_json(brought: Brought, sources: Sequence[Source]) -> None:
    from trainwright.importing.accounting.report import to_json

    output(encoder.dumps(to_json(_told(brought, sources)), indent=2))


def _told(brought: Brought, sources: Sequence[Source]) -> list[Told]:
    from trainwright.cli.validate import project_crds
    from trainwright.importing.accounting.runs import accounts_of
    from trainwright.validate.crd import Catalogue, load_catalogue

    crds = Path(os.environ.get("TRAINWRIGHT_CRDS") or project_crds())
    return accounts_of(brought, sources, load_catalogue(crds) if crds.is_dir() else Catalogue())


def sources_of(files: Sequence[str]) -> list[Source]:
    """The texts of files, and of standard input for ``-``."""
    if not files:
        stop("name a manifest, or - for standard input")
    return [Source("standard input", _stdin()) if file == "-" else Source(file, read_text(Path(file), file)) for file in files]


def _stdin() -> str:
    content = sys.stdin.buffer.read(8 * LARGEST_FILE + 1)
    if len(content) > 8 * LARGEST_FILE:
        stop("standard input is larger than 8 MiB; check that it is the right thing", Exit.FINDINGS)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        stop("standard input is not UTF-8 text", Exit.FINDINGS)


def _existing(where: Project, profile: str | None) -> tuple[Cluster | None, Callable[[Data], Data]]:
    """The profile that is named, and what adds the project's defaults to a run."""
    if profile is None:
        return None, lambda data: data
    sources = load_sources(where)
    if profile not in sources.clusters:
        show(sources.findings)
        no_such("cluster", profile, list(sources.clusters))
    return sources.clusters[profile].cluster, _with_defaults(sources.defaults)


def _with_defaults(defaults: DefaultsFile | None) -> Callable[[Data], Data]:
    return (lambda data: defaults.merged(Document("run", data, {})).data) if defaults else lambda data: data


def files_of(brought: Brought, cluster: str) -> dict[str, str]:
    """Path in a project -> text of each file that an import writes."""
    runs = {f"charts/runs/{one.name}.yaml": MODELINE.format("run") + one.text for one in brought.runs}
    if brought.profile is None:
        return runs
    profile = Path(profile_path(cluster))
    runtimes = {(profile.parent / file).as_posix(): written(one) for file, one in brought.runtimes.items()}
    return {profile.as_posix(): MODELINE.format("cluster") + brought.profile_text, **runtimes, **runs}


def report(brought: Brought) -> None:
    """What came of each object, for people."""
    show(brought.notes)
    for failed in brought.failed:
        show(failed.findings)
        say(f"{failed.manifest.where('')}: {failed.manifest.data.get('kind')} is not imported")
    for one in brought.runs:
        fix = f"make the Secret {one.name}-secrets with this key, and replace the value: others may have seen it"
        show([found("TW409", where, f"{name} stands in plain text, and was not copied", fix) for name, where in one.hidden])
        for left in one.dropped:
            key = dotted(tokens(left.pointer))
            was = shown(left.pointer, left.value)
            say(f"{left.where}: {key} of run {one.name} is left out, which was {was}: {left.why}")
    for lacking in brought.lacks:
        say(f"the profile lacks {lacking}")


