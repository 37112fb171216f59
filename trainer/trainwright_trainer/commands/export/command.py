"""``trainwright-trainer export``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer.commands.options import USUAL_PLACE, refusals
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.rank.specification import specification_path


def export(
    checkpoints: Annotated[
        str, typer.Argument(show_default=False, help="The run's checkpoint directory, or its address on an object store.")
    ],
    output: Annotated[Path, typer.Argument(show_default=False, help="Directory to write. It must not be there, or be empty.")],
    step: Annotated[int | None, typer.Option(show_default=False, help="Default: the newest that verifies.")] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            show_default=False,
            help="The run's specification, for checkpoints that do not say what they were trained as. Default: the path in "
            f"{SPEC_ENV}, else {USUAL_PLACE}.",
        ),
    ] = None,
) -> None:
    """Write the weights of a checkpoint as a directory that `from_pretrained` of transformers loads.

    Every byte of the checkpoint is verified first, and the directory appears when it is whole. Exit codes: 10 it is another
    model, or something is at OUTPUT; 13 no checkpoint verifies; 203 a volume failed or is full.
    """
    with refusals():
        from trainwright_trainer.commands.export import run

        done = run.export(run.Request(checkpoints, output, spec or specification_path(os.environ), step))
    typer.echo(f"ok: {output}: {done.architecture} of step {done.step}, {done.size:,} bytes in {done.files} files of safetensors")
