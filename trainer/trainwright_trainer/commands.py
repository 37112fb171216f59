"""The commands of ``trainwright-trainer``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE
from trainwright_trainer.supervisor import Refusal, read_specification
from trainwright_trainer.supervisor import supervise as run_supervisor
from trainwright_trainer.support import missing

USUAL_PLACE = f"{SPEC_DIRECTORY}/{SPEC_FILE}"

app = typer.Typer(
    name="trainwright-trainer", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Runs one pod of a distributed training run: reads the run's specification, starts one process for each rank, and ends "
    "with an exit code that says how the run ended.",
)


@app.command()
def supervise(
    spec: Annotated[
        Path | None,
        typer.Option(show_default=False, help=f"The run's specification. Default: the path in {SPEC_ENV}, else {USUAL_PLACE}."),
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Argument(show_default=False, help="After `--`: what a pod under mpirun starts, such as `mpirun …` or `sshd …`."),
    ] = None,
) -> None:
    """Supervise this pod's ranks until the run ends.

    Exit codes: 0 done; 10 to 29 would fail again; 200 to 249 are worth another try. SIGTERM saves a checkpoint and ends the whole
    run. The last log line and the termination message name the cause.
    """
    code = run_supervisor(os.environ, spec, program or ())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs on a volume or a name server cannot keep the pod


@app.command()
def validate(path: Annotated[Path, typer.Argument(help="The run's specification.", show_default=False)]) -> None:
    """Check a specification without starting anything. Exit code 10 and one sentence if it is invalid.

    A valid one that asks for more than this trainer has is named too.
    """
    try:
        spec = read_specification(path).spec
    except Refusal as refusal:
        typer.echo(f"error: {refusal}", err=True)
        raise typer.Exit(int(ExitCode.INVALID_SPEC)) from None
    world = spec.world
    size = f"{world.nodes} x {world.processes_per_node} = {world.size} ranks on {world.device}"
    typer.echo(f"ok: {spec.identity}: {spec.work.kind}, {size}")
    for sentence in missing(spec):
        typer.echo(f"note: {sentence}", err=True)


@app.command()
def version() -> None:
    """Print the trainer's version."""
    typer.echo(__version__)
