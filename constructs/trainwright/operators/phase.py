"""Where an object that carries a run stands, in the project's words, from what every operator has: conditions, and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from trainwright.objects.fields import condition, items, text

Phase = Literal["waiting", "starting", "running", "suspended", "done", "failed", "unknown"]


class Standing(NamedTuple):
    """A phase, and why."""

    phase: Phase
    """``waiting``: not all pods run; ``starting``: all run, and not all are ready; ``running``: all are ready, which a pod of the
    trainer is before its ranks have met: whether it trains, only its log and its metrics say."""
    reason: str
    """The operator's own word, with its message; or how many pods there are of what kind."""


def because(*words: str) -> str:
    """An operator's word and its message, as far as it has them."""
    return ": ".join(filter(None, words))


def by_condition(manifest: Mapping[str, Any], phases: Mapping[str, Phase], besides: Sequence[str] = ()) -> Standing | None:
    """The phase of the last condition that is true and in ``phases``; None where there is none.

    Args:
        manifest: with its status.
        phases: by type of condition.
        besides: reasons of conditions that decide nothing.
    """
    found = None
    for _, one in items(manifest, "/status/conditions"):
        kind, reason = text(one, "/type"), text(one, "/reason")
        if text(one, "/status") == "True" and kind in phases and reason not in besides:
            found = Standing(phases[kind], because(reason, text(one, "/message")))
    return found


def by_pods(pods: Sequence[Mapping[str, Any]], wanted: int) -> Standing:
    """Operators' own counts are not asked: the Job controller writes none between a failure and the replacement.

    Args:
        pods: that there are; those that have failed do not count.
        wanted: as many as the controller makes; 0 where that is not known.
    """
    there = [pod for pod in pods if text(pod, "/status/phase") not in ("Failed", "Succeeded")]
    succeeded = sum(text(pod, "/status/phase") == "Succeeded" for pod in pods)
    running = [pod for pod in there if text(pod, "/status/phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]
    total = max(wanted - succeeded, len(there))
    unready = [pod for pod in there if text(condition(pod, "Ready"), "/status") != "True"]
    if not there or len(running) < total:
        return Standing("waiting", f"{len(running)} of {total} pods run")
    if unready:
        return Standing("starting", f"{len(unready)} of {total} pods are not ready")
    return Standing("running", f"all {total} pods are ready")
