"""Restarts of a run, as Prometheus sees them on every target."""

from __future__ import annotations

from trainwright.manifest.monitoring.series import IDENTITY
from trainwright.manifest.monitoring.served import ATTEMPTS
from trainwright.manifest.monitoring.watched import Watched

SEEN = "15m"
"""A run that restarts is away for so long at most: a Job waits up to six minutes between two pods."""


def restarted(run: Watched, times: int, seconds: int) -> str:
    """PromQL: an identity that began anew so often within so many seconds, and that was there of late.

    One of two counts is enough. The ledger's holds wherever an attempt began: in new pods (an Indexed Job), under the old names
    and addresses (a PyTorchJob on the node's network), or with no more than a new launcher (an MPIJob). The count of series
    holds where no attempt begins, or nobody keeps a ledger: a pod that comes back under a new name or address is a series of its
    own.
    """
    counts = [_series(run, times, seconds)]
    if ATTEMPTS in run.served:
        counts.insert(0, _attempts(run, times, seconds))
    return "or\n".join(counts)


def _attempts(run: Watched, times: int, seconds: int) -> str:
    """The latest number of an attempt, less the first one of the window: one that no scrape saw is counted all the same."""
    attempt = run.series.select(ATTEMPTS)
    return (
        f"max by ({IDENTITY}) (max_over_time({attempt}[{SEEN}]))\n"
        f"  - min by ({IDENTITY}) (min_over_time({attempt}[{seconds}s])) >= {times * run.attempts_an_incident}\n"
    )


def _series(run: Watched, times: int, seconds: int) -> str:
    pods = run.series.select(run.renewed)
    return (
        f"count by ({IDENTITY}) (max_over_time({pods}[{seconds}s])) >= {(times + 1) * run.renewed_pods}\n"
        f"  and count by ({IDENTITY}) (max_over_time({pods}[{SEEN}]))\n"
    )
