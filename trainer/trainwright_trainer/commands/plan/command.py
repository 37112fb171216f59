"""``trainwright-trainer plan``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trainwright_trainer.commands.options import SpecOption, given_specification, refusals


def plan(
    spec: SpecOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a specification will do, without starting a rank: ranks, batch, steps, rates, model, memory, checkpoints.

    The model is built without memory and counted; data is counted where it is on this machine. Exit codes: 10 the specification
    is invalid, or its model cannot be built; 12 the data is here, and is not what the specification says.
    """
    from trainwright_trainer.commands.plan.plan import plan as make_plan
    from trainwright_trainer.commands.plan.report import report

    with refusals():
        given = given_specification(spec)
        made = make_plan(given.spec, given.path)
    typer.echo(json.dumps(asdict(made), indent=2) if as_json else report(made))
