"""Rules on XGBoost's tracker."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.command import command_of
from trainwright.rules.context import Context
from trainwright.run import CommandWorkload

_TRACKERS = ("tracker", "dmlc-submit", "dmlc_submit")
"""Words of a command that starts one by name."""


def tracker(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Workers meet at a tracker, which no operator starts: our trainer does, and a command has to."""
    if resolution.needs.rendezvous is not Rendezvous.DMLC_TRACKER or not isinstance(context.run.workload, CommandWorkload):
        return
    if any(word in token.lower() for token in command_of(context) for word in _TRACKERS):
        return
    binding = resolution.binding
    index = next((name for name in binding.renders if name.startswith("DMLC_")), binding.node_index_env)
    message = f"nothing starts XGBoost's tracker: all pods would wait for it at DMLC_TRACKER_URI, port {binding.rendezvous_port}"
    fix = (
        f"use workload boosting, whose trainer starts it; or start xgboost.tracker.RabitTracker where {index} is 0, "
        "hand its address to xgboost.collective, and waive this"
    )
    yield found("TW421", context.locate.run("/workload/command"), message, fix)


PLAN = (tracker,)
