"""What the commands share: options, what becomes of an error or a signal, and the file that ``--json`` names."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.commands.local import PodFailedError
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import InvalidRunError, PodError, RankError, own_code
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE
from trainwright_trainer.contract.spec_file import Specification, read_specification, specification_path

USUAL_PLACE = f"{SPEC_DIRECTORY}/{SPEC_FILE}"
_TOLD_TO_END = 128
"""And the number of the signal: what a shell gives for a program that a signal ended."""

SpecOption = Annotated[
    Path | None,
    typer.Option(
        "--spec", show_default=False, help=f"The run's specification. Default: the path in {SPEC_ENV}, else {USUAL_PLACE}."
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        min=1, show_default=False,
        help="Ranks on this machine. Default: those of the run. A step sees the same samples at any number that divides them.",
    ),
]
JSONOption = Annotated[
    Path | None, typer.Option("--json", show_default=False, help="Write what was found there too, as JSON.")
]


def given_specification(path: Path | None) -> Specification:
    """The run's specification, from the path that an option names or from its usual place. Raises :class:`PodError`."""
    return read_specification(path or specification_path(os.environ))


@contextmanager
def refusals() -> Iterator[None]:
    """An error with a known cause becomes one sentence and its exit code. Any other keeps its traceback, and becomes 200.

    Python's own code for a traceback is 1, which the commands keep for an answer.
    """
    try:
        yield
    except (RankError, PodError, StorageError, PodFailedError) as error:
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


@contextmanager
def trying_a_run(file: Path | None) -> Iterator[None]:
    """For a command that starts a run to find something out, and may write it to ``file``. Nothing of the run stays behind."""
    with refusals(), _ending_in_order():
        _check_place(file)
        yield


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
    """That a ``--json`` can be written, before minutes of work whose figures would have nowhere to go.

    Raises:
        InvalidRunError: It cannot. The message says why.
    """
    if file is None:
        return
    folder = file.absolute().parent
    if not folder.is_dir():
        raise InvalidRunError(f"--json {file} cannot be written: {folder} is not a directory; make it, or name another file")
    if file.is_dir():
        raise InvalidRunError(f"--json {file} is a directory; name a file in it")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise InvalidRunError(f"--json {file} cannot be written: no access; name a file where you may write")


def write_json(file: Path | None, document: dict[str, object]) -> None:
    """What a command found, where ``--json`` asks for it."""
    if file is not None:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
