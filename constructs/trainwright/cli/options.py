"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProjectOption = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="The project's folder; default: the nearest one with charts/.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run in charts/runs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
