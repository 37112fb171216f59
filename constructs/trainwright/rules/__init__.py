"""Rules look at run, cluster, plan and manifests, and return findings; they never change anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.findings import Finding
from trainwright.plan import Resolution
from trainwright.rules import (
    cluster,
    command,
    data,
    deepspeed,
    environment,
    memory,
    monitoring,
    mpi,
    objects,
    operators,
    pod,
    scheduling,
    storage,
    training,
)
from trainwright.rules import cluster as network
from trainwright.rules import command as tensorflow
from trainwright.rules import command as xgboost
from trainwright.rules import monitoring as lifecycle
from trainwright.rules import monitoring as metrics
from trainwright.rules import training as engine
from trainwright.rules.context import Context

_RUN = (
    *training.RUN, *engine.ENGINE, *lifecycle.LIFECYCLE, *metrics.SINKS, *storage.RUN, *data.RUN, *cluster.RUN, *environment.RUN,
    *command.RUN, *scheduling.RUN, *monitoring.RUN, *objects.RUN,
)
_PLAN = (
    *training.PLAN, *memory.PLAN, *deepspeed.PLAN, *storage.PLAN, *data.PLAN, *cluster.PLAN, *environment.PLAN, *command.PLAN,
    *operators.PLAN, *scheduling.PLAN, *network.NETWORK_PLAN, *monitoring.PLAN, *mpi.PLAN,
    *tensorflow.TENSORFLOW_PLAN, *xgboost.XGBOOST_PLAN, *objects.PLAN,
)


def check_run(context: Context) -> list[Finding]:
    """What can be said before anything is planned."""
    return [finding for rule in _RUN for finding in rule(context)]


def check_plan(context: Context, resolution: Resolution) -> list[Finding]:
    """What the plan shows, alone and on its target."""
    return [finding for rule in (*_PLAN, *resolution.target.rules) for finding in rule(context, resolution)]


def check_manifests(context: Context, resolution: Resolution, manifests: Sequence[dict[str, Any]]) -> list[Finding]:
    """What the finished objects show, overrides included."""
    findings = [finding for rule in objects.MANIFESTS for finding in rule(context, resolution, manifests)]
    if findings:
        return findings  # the rules on pods read what the API's schema allows
    return [finding for rule in (*pod.MANIFESTS, *scheduling.MANIFESTS) for finding in rule(context, resolution, manifests)]


__all__ = ["Context", "check_manifests", "check_plan", "check_run"]
