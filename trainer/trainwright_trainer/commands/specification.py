"""Commands that read a specification and start nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer import __version__
from trainwright_trainer.commands.app import Specification, app, refusals
from trainwright_trainer.rank.specification import specification_path
from trainwright_trainer.supervisor import read_specification


@app.command()
def validate(path: Annotated[Path, typer.Argument(help="The run's specification.", show_default=False)]) -> None:
    """Check a specification without starting anything. Exit code 10 and one sentence if it is invalid."""
    with refusals():
        spec = read_specification(path).spec
    world = spec.world
    size = f"{world.nodes} x {world.processes_per_node} = {world.size} ranks on {world.device}"
    typer.echo(f"ok: {spec.identity}: {spec.work.kind}, {size}")


@app.command()
def plan(
    spec: Specification = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a specification will do, without starting a rank: ranks, batch, steps, rates, model, memory, checkpoints.

    The model is built without memory and counted; data is counted where it is on this machine. Exit codes: 10 the specification
    is invalid, or its model cannot be built; 12 the data is here, and is not what the specification says.
    """
    from trainwright_trainer.commands.plan import plan as make_plan
    from trainwright_trainer.commands.plan import report

    with refusals():
        given = read_specification(spec or specification_path(os.environ))
        made = make_plan(given.spec, given.path)
    typer.echo(json.dumps(asdict(made), indent=2) if as_json else report(made))


@app.command()
def version() -> None:
    """Print the trainer's version."""
    typer.echo(__version__)
