"""``trainwright validate``: would the API server and the operators take these manifests?"""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.session import Exit, FormatOption, JsonOption, output, show, stop, watched, write_findings
from trainwright.findings import CompileError, Severity
from trainwright.report.formats import Format

if TYPE_CHECKING:
    from trainwright.validate import Report

FETCHED = Path("build/crds")
"""Where `trainwright crds` puts them, in the project."""


def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Manifests; of a folder, all .yaml, .yml and .json below it.")
    ],
    crds: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="TRAINWRIGHT_CRDS", help="CustomResourceDefinitions; default: build/crds, as `crds` puts them."
        ),
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Of the cluster, such as 1.34; default: in dist/ its profile's, else the newest."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 1 for warnings too: a kind without a schema, a rule not evaluated.")
    ] = False,
    json: JsonOption = False,
    style: FormatOption = Format.TEXT,
) -> None:
    """Say what the API server or an operator would refuse in manifests, without a cluster.

    Ends with 1 where an object would be refused. Custom resources need their CustomResourceDefinitions; of those without only the
    names of fields are checked, or nothing but their pods. They are named, and are errors with --strict.
    """
    from trainwright.project.load import project_of, version_for
    from trainwright.validate import validate_files
    from trainwright.validate.core_schemas import UnknownVersionError
    from trainwright.validate.manifests import files_below

    if missing := next((path for path in files if not path.exists() and project_of(path)), None):
        stop(f"there is no {missing}; `trainwright synth` writes what is in dist/")
    folder = _folder(crds)
    try:
        read = watched(list(files_below(files)), "reading manifests")
        version = version_for if kubernetes is None else lambda _: kubernetes
        report = validate_files(read, folder, version, lambda file: project_of(file) is not None)
    except UnknownVersionError as error:
        stop(str(error))
    if not report.objects and not report.findings:
        stop(f"there are no manifests in {', '.join(str(path) for path in files)}")
    if json:
        from trainwright.report.finding import to_json

        left = {"not_validated": report.unchecked, "names_only": report.by_name}
        data = {"objects": report.objects, **left, "findings": to_json(report.findings)}
        output(encoder.dumps(data, indent=2))
    elif style is not Format.TEXT:
        write_findings(report.findings, style)
    else:
        show(report.findings)
        output(_summary(report))
    if report.errors or (strict and any(finding.severity is not Severity.INFO for finding in report.findings)):
        raise typer.Exit(Exit.FINDINGS)


def _folder(given: Path | None) -> Path | None:
    """The folder of CRDs: the one that was named, or the project's where it has one."""
    if given is not None:
        if not given.is_dir():
            stop(f"{given} is not a folder; `trainwright crds` fetches CustomResourceDefinitions into {FETCHED}")
        return given
    fetched = project_crds()
    return fetched if fetched.is_dir() else None


def project_crds() -> Path:
    """Where the project has its CustomResourceDefinitions, or would have; outside of a project, below this folder."""
    from trainwright.project.load import find_project

    try:
        return find_project(Path.cwd()).root / FETCHED
    except CompileError:
        return FETCHED


def _summary(report: Report) -> str:
    from trainwright.units import counted

    names, unchecked = sum(report.by_name.values()), sum(report.unchecked.values())
    errors = counted(report.errors, "error") if report.errors else "no errors"
    partly = f", {names} by names of fields only" if names else ""
    left = f", {unchecked} NOT VALIDATED: no schema of {', '.join(report.unchecked)}" if unchecked else ""
    return f"{counted(report.objects, 'object')}, {errors}{partly}{left}"
