"""``trainwright runtimes``: what a platform team has installed for TrainJobs, as files that a profile names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright.cli.session import Exit, ProjectOption, no_such, open_project, output, stop
from trainwright.cluster.runtimes import KINDS, digest_of, held_at, without_server_fields
from trainwright.findings.locate import dotted, tokens
from trainwright.project.load import PROFILE_SUFFIXES
from trainwright.reading.document import parse_yaml
from trainwright.rules.secrets import IN_A_RUNTIME, secrets_in
from trainwright.validate.manifests import read_objects


def command(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The profile that they are for.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="From `kubectl get clustertrainingruntimes -o yaml`, or of Trainer's release."),
    ],
    project: ProjectOption = None,
) -> None:
    """Write the runtimes of Kubeflow Trainer that a cluster has, for runs that name one.

    Each goes to a file beside the profile, without what the API server notes. The lines for the profile are printed: a new digest
    is for a reviewer, since each run on the runtime starts anew with it.
    """
    folder = open_project(project).clusters
    known = sorted(path.stem for path in folder.iterdir() if path.suffix in PROFILE_SUFFIXES)
    if cluster not in known:
        stop(no_such("cluster profile", cluster, known))
    objects = (one for file in files for one in read_objects(file))
    found = [one for one in objects if one.get("kind") in KINDS and isinstance(one.get("spec"), dict)]
    if not found:
        stop(f"there is no {' and no '.join(KINDS)} in {', '.join(map(str, files))}")
    for one in found:
        if pointer := next(secrets_in(one), None):
            place = f"{dotted(tokens(pointer))} of {one['metadata'].get('name')}"
            stop(f"{place} looks like a secret, and a profile would hold it in plain text; {IN_A_RUNTIME}", Exit.FINDINGS)
    lines, names = ["runtimes:"], set[str]()
    for one in map(without_server_fields, found):
        name = str(one["metadata"].get("name"))
        if name in names or not name.replace("-", "").replace(".", "").isalnum():
            stop(f"{name} is there twice, or is no name: a profile has each name once")
        names.add(name)
        path = folder / held_at(cluster, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(one), encoding="utf-8")
        lines.append(f"  {name}: {{file: {path.relative_to(folder).as_posix()}, digest: \"{digest_of(one)}\"}}")
    output("\n".join(lines))


def written(manifest: Mapping[str, Any]) -> str:
    """A runtime as its file: in YAML, or as JSON where YAML 1.2 would read something else, as of a text such as 1e3."""
    import yaml

    text = yaml.safe_dump(dict(manifest), sort_keys=False, width=120)
    same = digest_of(parse_yaml(text, "runtime").data) == digest_of(manifest)
    return text if same else json.dumps(manifest, indent=2) + "\n"
