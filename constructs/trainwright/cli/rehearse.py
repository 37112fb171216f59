"""``trainwright rehearse``: run the YAML of ``dist/``, or of any file, on this machine."""

from __future__ import annotations

import json as json_encoder
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from trainwright.cli.session import ProjectOption, fail, for_target, open_sources, run_file, say, stop, today
from trainwright.findings import CompileError
from trainwright.operators.operator import makes_pods
from trainwright.project.build import build_run
from trainwright.project.status import last_records

if TYPE_CHECKING:
    from trainwright.project.load import Sources
    from trainwright.rehearsal.networks.network import NetworkMode
    from trainwright.rehearsal.setting import FaultKind
    from trainwright.run import Run


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of a run in charts/runs, or a file of manifests.")],
    project: ProjectOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="First empty the volumes that the pods write to.")] = False,
    workspace: Annotated[Path | None, typer.Option(metavar="DIR", help="For volumes and logs; default: .rehearsal/RUN.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Compile the run for another target, and play that in place of dist/.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="At most so many pods of each role.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Train so many steps: only where our trainer trains.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="End the rehearsal as failed after so long.")] = None,
    python: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Virtual environment that stands for the image; default: this one.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(metavar="own|loopback", help="What connects pods; default: networks of their own, if it can be.")
    ] = None,
    kill: Annotated[list[str] | None, typer.Option(metavar="POD|RANK@STEP", help="SIGKILL a pod, or one rank.")] = None,
    preempt: Annotated[list[str] | None, typer.Option(metavar="POD@STEP", help="Evict a pod, as a drain does.")] = None,
    node_lost: Annotated[list[str] | None, typer.Option(metavar="POD@STEP", help="Lose its node for good.")] = None,
    oom: Annotated[list[str] | None, typer.Option(metavar="POD@STEP", help="Its main container is out of memory.")] = None,
    hang: Annotated[list[str] | None, typer.Option(metavar="RANK@STEP", help="Freeze a rank.")] = None,
    partition: Annotated[
        list[str] | None, typer.Option(metavar="POD@STEP", help="Cut it off from the others for 30 s.")
    ] = None,
    corrupt: Annotated[str | None, typer.Option(metavar="newest", help="Damage the newest checkpoint before that.")] = None,
    chaos: Annotated[int, typer.Option(metavar="N", min=0, help="N faults by chance.")] = 0,
    seed: Annotated[int, typer.Option(help="Of --chaos: the same faults for the same number.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="What became of it as JSON, on standard output.")] = False,
    mount: Annotated[list[str] | None, typer.Option(metavar="PATH=FOLDER", help="A folder here for a path in the pods.")] = None,
) -> None:
    """Play a run's pods here, from the YAML in dist/.

    Pods are local processes with what the real controller would give them. Volumes stay between rehearsals: a run that was ended
    goes on from its last checkpoint. Ends with 0 if the Job completed, 1 if it failed, 3 if the manifests cannot work or this
    machine cannot play them, 143 if it was told to end.
    """
    from trainwright.rehearsal import Options, own_programs, rehearse_file

    path, folder, beside = _file(run, project) if target is None else _compiled(run, project, target)
    if python is not None and not (python / "bin" / "python").is_file():
        stop(f"--python {python}: there is no {python / 'bin' / 'python'}; name the folder of a virtual environment")
    if corrupt not in (None, "newest"):
        stop(f"--corrupt {corrupt}: write `newest`, for the newest checkpoint that is committed")
    if network not in (None, "own", "loopback"):
        stop(f"--network {network}: write `own`, for a network namespace of each pod, or `loopback`")
    mounts = dict(_mount(text) for text in mount or [])
    asked: dict[FaultKind, list[str] | None] = {
        "kill": kill, "preempt": preempt, "node-lost": node_lost, "oom": oom, "hang": hang, "partition": partition,
    }  # fmt: skip
    chosen = Options(
        fresh=fresh, nodes=nodes, steps=steps, timeout_seconds=timeout, directory=mounts.pop(".", None), mounts=mounts,
        faults=tuple((kind, text) for kind, texts in asked.items() for text in texts or []), corrupt=corrupt is not None,
        chaos=chaos, seed=seed, network=cast("NetworkMode | None", network),
        programs=python.absolute() / "bin" if python else own_programs(),
    )  # fmt: skip
    raise typer.Exit(rehearse_file(path, workspace=workspace or folder, options=chosen, as_json=json, beside=beside))


Beside = Sequence[Mapping[str, Any]]
"""Objects that a run names, and that neither its file nor its foundation holds: the runtime of a TrainJob."""


def _file(run: str, project: Path | None) -> tuple[Path, Path, Beside]:
    """The file that holds it, where its volumes and logs lie, and what the profile has of the cluster."""
    if run.endswith((".yaml", ".yml", ".json")):
        name = Path(run).name.partition(".")[0]
        return Path(run), Path(".rehearsal") / name, ()
    where, sources = open_sources(project)
    file = sources.runs[run_file(sources, run)]
    path = where.dist / file.run.cluster / file.run.namespace / "runs" / f"{run}.k8s.yaml"
    if (state := file.run.state) != "active":
        stop(f"run {run} is {state} and not in dist/: remove its `state: {state}` and run `trainwright synth` to rehearse it")
    if not path.is_file():
        stop(f"{where.shown(path)} is not there: run `trainwright synth` first")
    entry = last_records(where).runs.get(run)
    if entry and entry.file != file.digest:
        say(f"{file.name} changed since dist/ was written: this plays the older YAML; `trainwright synth` brings it up to date\n")
    return path, where.root / ".rehearsal" / run, _runtimes(file.run, sources)


def _runtimes(run: Run, sources: Sources) -> Beside:
    return [one.manifest for name, one in sources.clusters[run.cluster].cluster.runtimes.items() if name == run.runtime]


def _compiled(run: str, project: Path | None, target: str) -> tuple[Path, Path, Beside]:
    """A file of what it compiles to for another target, which is not dist/."""
    where, sources = open_sources(project)
    file = sources.runs[run_file(sources, run)]
    try:
        built = build_run(file._replace(run=for_target(file.run, target)), sources, today())
    except CompileError as error:
        fail(error.findings)
    folder = where.root / ".rehearsal" / f"{run}.{target}"
    path = folder.with_suffix(f".{target}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled = built.compiled  # a Job that fetches data is the namespace's, and no pod of the run
    items = [one for number, one in enumerate(compiled.manifests) if number not in compiled.shared or not makes_pods(one)]
    path.write_text(json_encoder.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    say(f"compiled from {file.name} for {target}: this plays {where.shown(path)}, which is not in dist/\n")
    return path, folder, _runtimes(file.run, sources)


def _mount(text: str) -> tuple[str, Path]:
    from trainwright.rehearsal.setting import NO_WORD

    path, separator, folder = text.partition("=")
    if not separator or not (path.startswith("/") or path == ".") or not Path(folder).is_dir():
        stop(f"--mount {text}: write PATH=FOLDER, an absolute path in the pods (or . for the image's working directory) and a "
             "folder on this machine")
    local = Path(folder).resolve()
    if path != "." and (odd := NO_WORD.search(str(local))):
        stop(f"--mount {text}: {local} has {odd[0]!r} in it, and it becomes a part of commands; name another folder")
    return path, local
