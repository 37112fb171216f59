"""``trainwright-trainer verify-resume``."""

from __future__ import annotations

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

NOT_PROVEN = 1
"""Exit code of a proof that fails. No pod ends with it, and no error of this program."""


def verify_resume(
    spec: SpecOption = None,
    steps: Annotated[int, typer.Option(help="Length of the run that is proven; a third of them lie between two commits.")] = 12,
    kill_at: Annotated[
        int | None,
        typer.Option(show_default=False, help="Step after which the ranks are killed. Default: drawn by the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the moment of the kill.")] = 0,
    processes: ProcessesOption = None,
    resume_processes: Annotated[
        int | None,
        typer.Option(
            min=1, show_default=False,
            help="The other number of ranks to resume with. Default: half, or two for one. The same number leaves that out.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="Relative, for losses that other sums may round otherwise. Default: 0.001 in fp32, 0.02 in bf16 and fp16.",
        ),
    ] = None,
    weight_tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="The same for weights, as a share of the way that they went. Default: 0.02 in fp32, 0.1 in bf16 and fp16.",
        ),
    ] = None,
    file: JSONOption = None,
) -> None:
    """Prove on this machine that the run resumes exactly: kill all of its ranks, resume it, and compare with one uninterrupted.

    Resumed at its own size it must see the same samples and end with the same bits (on GPUs: within the tolerance); resumed at
    another size it must see the same samples, with losses and weights within the tolerance. The last line names what was not
    compared. Exit codes: 0 proven; 1 not, and the first step that differs is named; 10 it cannot be proven as asked; 203 also
    where FILE cannot be written after all; any other code is that of a run that failed without any kill.
    """
    with trying_a_run(file):
        from trainwright_trainer.commands.verify_resume import run
        from trainwright_trainer.commands.verify_resume.report import document, report

        request = run.Request(
            given_specification(spec), steps, kill_at, seed, processes, resume_processes, tolerance, weight_tolerance
        )
        proof = run.verify_resume(request)
        typer.echo(report(proof))
        write_json(file, document(proof))
    if not proof.holds:
        raise typer.Exit(NOT_PROVEN)
