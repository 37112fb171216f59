"""The program ``trainwright-trainer``: its commands in the order of the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer import __version__
from trainwright_trainer.commands.bench.command import bench
from trainwright_trainer.commands.export.command import export
from trainwright_trainer.commands.options import refusals
from trainwright_trainer.commands.plan.command import plan
from trainwright_trainer.commands.pods import ray, supervise, train
from trainwright_trainer.commands.tokenize.command import tokenize
from trainwright_trainer.commands.verify_resume.command import verify_resume
from trainwright_trainer.rank.specification import read_specification


def validate(path: Annotated[Path, typer.Argument(help="The run's specification.", show_default=False)]) -> None:
    """Check a specification without starting anything. Exit code 10 and one sentence if it is invalid."""
    with refusals():
        spec = read_specification(path).spec
    world = spec.world
    size = f"{world.nodes} x {world.processes_per_node} = {world.size} ranks on {world.device}"
    typer.echo(f"ok: {spec.identity}: {spec.work.kind}, {size}")


def version() -> None:
    """Print the trainer's version."""
    typer.echo(__version__)


app = typer.Typer(
    name="trainwright-trainer", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Runs one pod of a distributed training run: reads the run's specification, starts one process for each rank, and ends "
    "with an exit code that says how the run ended.",
)
for command in (supervise, ray, train, validate, plan, version, bench, verify_resume, tokenize, export):
    app.command()(command)
