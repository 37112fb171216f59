"""``trainwright schema``: JSON Schema for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from trainwright.cli.session import output
from trainwright.cluster import Cluster
from trainwright.gitops.model import GitOps
from trainwright.model import Model
from trainwright.policy import Policy
from trainwright.run import Run
from trainwright.run.defaults import Defaults


class Kind(StrEnum):
    RUN = "run"
    CLUSTER = "cluster"
    DEFAULTS = "defaults"
    POLICY = "policy"
    GITOPS = "gitops"


MODELS: dict[Kind, type[Model]] = {
    Kind.RUN: Run, Kind.CLUSTER: Cluster, Kind.DEFAULTS: Defaults, Kind.POLICY: Policy, Kind.GITOPS: GitOps,
}
"""What describes each kind of file."""


def command(kind: Annotated[Kind, typer.Argument(help="What to describe.")] = Kind.RUN) -> None:
    """Print the JSON Schema of a run file, of a cluster profile, of the defaults of runs, of a policy or of what Argo CD is told.

    An editor with a YAML language server completes and checks keys with it.
    """
    from trainwright.report.schema import file_schema_of

    output(json.dumps(file_schema_of(MODELS[kind]), indent=2))
