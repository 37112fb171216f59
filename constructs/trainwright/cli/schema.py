"""``trainwright schema``: JSON Schema for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from trainwright.cli.session import output
from trainwright.cluster import Cluster
from trainwright.run import Run


class Kind(StrEnum):
    RUN = "run"
    CLUSTER = "cluster"


def command(kind: Annotated[Kind, typer.Argument(help="What to describe.")] = Kind.RUN) -> None:
    """Print the JSON Schema of a run file or of a cluster profile.

    An editor with a YAML language server completes and checks keys with it.
    """
    from trainwright.report.schema import described_schema

    output(json.dumps(described_schema(Run if kind is Kind.RUN else Cluster), indent=2))
