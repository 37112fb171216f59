"""``trainwright-trainer bench``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainwright_trainer.commands.options import (
    JSONOption,
    ProcessesOption,
    SpecOption,
    given_specification,
    trying_a_run,
    write_json,
)


def bench(
    spec: SpecOption = None,
    steps: Annotated[int, typer.Option(help="Steps to measure.")] = 30,
    warm_up: Annotated[int, typer.Option(help="Steps before them, which are not measured.")] = 10,
    processes: ProcessesOption = None,
    peak_tflops: Annotated[
        float | None,
        typer.Option(
            show_default=False,
            help="Peak of one device in 10^12 operations a second, for MFU. Default: NVIDIA's data sheet, for known GPUs.",
        ),
    ] = None,
    file: JSONOption = None,
) -> None:
    """Train some steps of a run on this machine, and say how fast: its real model, data, engine and supervisor.

    Checkpoints go to a temporary directory, with no save between the steps. Exit codes: 10 it cannot be measured as asked; 203
    also where FILE cannot be written after all; any other code is the run's own.
    """
    with trying_a_run(file):
        from trainwright_trainer.commands.bench import run
        from trainwright_trainer.commands.bench.figures import report

        figures = run.bench(run.Request(given_specification(spec), steps, warm_up, processes, peak_tflops))
        typer.echo(report(figures))
        write_json(file, asdict(figures))
