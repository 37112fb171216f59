"""The program, and what its commands share: options and refusals."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.commands.local import PodFailedError
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError, own_code
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE
from trainwright_trainer.supervisor import Refusal

USUAL_PLACE = f"{SPEC_DIRECTORY}/{SPEC_FILE}"

app = typer.Typer(
    name="trainwright-trainer", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Runs one pod of a distributed training run: reads the run's specification, starts one process for each rank, and ends "
    "with an exit code that says how the run ended.",
)

Specification = Annotated[
    Path | None,
    typer.Option(
        "--spec", show_default=False, help=f"The run's specification. Default: the path in {SPEC_ENV}, else {USUAL_PLACE}."
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1, show_default=False,
        help="Ranks on this machine. Default: those of the run. A step sees the same samples at any number that divides them.",
    ),
]
JSONFile = Annotated[
    Path | None, typer.Option("--json", show_default=False, help="Write what was found there too, as JSON.")
]


@contextmanager
def refusals() -> Iterator[None]:
    """An error with a known cause becomes one sentence and its exit code. Any other keeps its traceback, and becomes 200.

    Python's own code for a traceback is 1, which the commands keep for an answer.
    """
    try:
        yield
    except (RankError, Refusal, StorageError, PodFailedError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(int(own_code(error) or ExitCode.INTERNAL)) from None
    except ModuleNotFoundError as error:
        typer.echo(f"error: {error.name} is not installed: install trainwright-trainer[torch], or run it in its image", err=True)
        raise typer.Exit(int(ExitCode.INVALID_SPEC)) from None
    except OSError as error:
        typer.echo(f"error: {_of_the_machine(error)}", err=True)
        raise typer.Exit(int(ExitCode.STORAGE)) from None
    except Exception:
        traceback.print_exc()
        raise typer.Exit(int(ExitCode.INTERNAL)) from None


def _of_the_machine(error: OSError) -> str:
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}; give access and space there, or name another place (temporary files: TMPDIR)"
