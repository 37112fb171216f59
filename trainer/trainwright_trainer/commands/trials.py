"""Commands that start a run on this machine to find something out, and leave nothing of it behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from trainwright_trainer.commands.app import JSONFile, Processes, Specification, app, refusals
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.rank.specification import specification_path
from trainwright_trainer.supervisor import read_specification

NOT_PROVEN = 1
"""Exit code of a proof that fails. No pod ends with it, and no error of this program."""
_TOLD_TO_END = 128


@app.command()
def bench(
    spec: Specification = None,
    steps: Annotated[int, typer.Option(help="Steps to measure.")] = 30,
    warm_up: Annotated[int, typer.Option(help="Steps before them, which are not measured.")] = 10,
    processes: Processes = None,
    peak_tflops: Annotated[
        float | None,
        typer.Option(
            show_default=False,
            help="Peak of one device in 10^12 operations a second, for MFU. Default: NVIDIA's data sheet, for known GPUs.",
        ),
    ] = None,
    file: JSONFile = None,
) -> None:
    """Train some steps of a run on this machine, and say how fast: its real model, data, engine and supervisor.

    Checkpoints go to a temporary directory, with no save between the steps. Exit codes: 10 it cannot be measured as asked; 203
    also where FILE cannot be written after all; any other code is the run's own.
    """
    with refusals(), _ending_in_order():
        from trainwright_trainer.commands.bench import Request, report
        from trainwright_trainer.commands.bench import bench as run_bench

        _check_place(file)
        given = read_specification(spec or specification_path(os.environ))
        figures = run_bench(Request(given, steps, warm_up, processes, peak_tflops))
        typer.echo(report(figures))
        _write(file, asdict(figures))


@app.command("verify-resume")
def verify_resume(
    spec: Specification = None,
    steps: Annotated[int, typer.Option(help="Length of the run that is proven; a third of them lie between two commits.")] = 12,
    kill_at: Annotated[
        int | None,
        typer.Option(show_default=False, help="Step after which the ranks are killed. Default: drawn by the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the moment of the kill.")] = 0,
    processes: Processes = None,
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
    file: JSONFile = None,
) -> None:
    """Prove on this machine that the run resumes exactly: kill all of its ranks, resume it, and compare with one uninterrupted.

    Resumed at its own size it must see the same samples and end with the same bits (on GPUs: within the tolerance); resumed at
    another size it must see the same samples, with losses and weights within the tolerance. The last line names what was not
    compared. Exit codes: 0 proven; 1 not, and the first step that differs is named; 10 it cannot be proven as asked; 203 also
    where FILE cannot be written after all; any other code is that of a run that failed without any kill.
    """
    with refusals(), _ending_in_order():
        from trainwright_trainer.commands.verify_resume import Request, document, report
        from trainwright_trainer.commands.verify_resume import verify_resume as prove

        _check_place(file)
        given = read_specification(spec or specification_path(os.environ))
        proof = prove(Request(given, steps, kill_at, seed, processes, resume_processes, tolerance, weight_tolerance))
        typer.echo(report(proof))
        _write(file, document(proof))
    if not proof.holds:
        raise typer.Exit(NOT_PROVEN)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """SIGTERM unwinds, so that the pod and the temporary directory go too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(_TOLD_TO_END + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_place(file: Path | None) -> None:
    """Before minutes of work whose figures would have nowhere to go. Raises :class:`InvalidRunError`."""
    if file is None:
        return
    folder = file.absolute().parent
    if not folder.is_dir():
        raise InvalidRunError(f"--json {file} cannot be written: {folder} is no directory; make it, or name another file")
    if file.is_dir():
        raise InvalidRunError(f"--json {file} is a directory; name a file in it")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise InvalidRunError(f"--json {file} cannot be written: no access; name a file where you may write")


def _write(file: Path | None, document: dict[str, object]) -> None:
    if file is not None:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
