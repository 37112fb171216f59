"""Limits of a run, which its pods serve beside what they measure: an alert on all runs of a namespace compares the two.

They follow from the run's own specification. A run that has no limit of a kind serves none, and raises no alert of that kind.
"""

from __future__ import annotations

from math import ceil

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.contract.spec import ElasticRendezvous, MPIRendezvous, RunSpec, Script, Watchdog
from trainwright_trainer.contract.training import Training

STALL_SECONDS = 900
SAVES = 4
"""The trainer ends a run that hangs by itself, after minutes."""
LOG_INTERVALS = 3
GOODPUT = 0.75
MISSED_SAVES = 2
EMPTY_ATTEMPTS = 3
RESTARTS = 3

LOG_INTERVAL = "trainwright_log_interval_steps"
STALL_LIMIT = "trainwright_stall_limit_seconds"
GOODPUT_LIMIT = "trainwright_goodput_limit"
UNSAVED_SECONDS_LIMIT = "trainwright_unsaved_limit_seconds"
UNSAVED_STEPS_LIMIT = "trainwright_unsaved_limit_steps"
SAVE_LIMIT = "trainwright_save_limit_seconds"
EMPTY_ATTEMPTS_LIMIT = "trainwright_attempts_without_commit_limit"
ATTEMPTS_LIMIT = "trainwright_attempts_limit"
PODS_LIMIT = "trainwright_pods_limit"
"""Served only by pods that a new attempt replaces: under mpirun by the launcher, whose workers stay. Its series are counted."""


def limits(spec: RunSpec) -> dict[str, float]:
    """Metric -> limit, for those that the run has.

    A script has none but those on restarts, unless it saves by ``trainwright_trainer.run``: then it reports steps and commits.
    """
    return _of_restarts(spec) | (_of_script(spec, spec.work) if isinstance(spec.work, Script) else _of_steps(spec, spec.work))


def _of_restarts(spec: RunSpec) -> dict[str, float]:
    match spec.world.rendezvous:
        case ElasticRendezvous(max_nodes=most):
            replaced = most
        case MPIRendezvous():
            replaced = 1
        case _:
            replaced = spec.world.nodes
    found: dict[str, float] = {PODS_LIMIT: (RESTARTS + 1) * replaced}
    if spec.state_directory is not None:
        found[ATTEMPTS_LIMIT] = RESTARTS * _attempts_an_incident(spec)
    return found


def _attempts_an_incident(spec: RunSpec) -> int:
    """All ranks are brought down once; those of an elastic run once more when the pod that was lost is back."""
    return 2 if isinstance(spec.world.rendezvous, ElasticRendezvous) else 1


def _of_script(spec: RunSpec, work: Script) -> dict[str, float]:
    if work.checkpoints is None:
        return {}
    watchdog = spec.lifecycle.watchdog or Watchdog()
    return {
        LOG_INTERVAL: 1,
        STALL_LIMIT: STALL_SECONDS + watchdog.saving_seconds,  # between two steps it may evaluate or save
        SAVE_LIMIT: spec.lifecycle.grace_seconds - EXIT_MARGIN_SECONDS,
        EMPTY_ATTEMPTS_LIMIT: (EMPTY_ATTEMPTS - 1) * _attempts_an_incident(spec) + 1,
    }


def _of_steps(spec: RunSpec, work: Training | Boosting) -> dict[str, float]:
    saves, save_seconds = work.checkpoints, ceil(spec.lifecycle.save_seconds)
    found: dict[str, float] = {
        LOG_INTERVAL: work.log_every_steps,
        STALL_LIMIT: STALL_SECONDS + SAVES * save_seconds,
        SAVE_LIMIT: spec.lifecycle.grace_seconds - EXIT_MARGIN_SECONDS,
        EMPTY_ATTEMPTS_LIMIT: (EMPTY_ATTEMPTS - 1) * _attempts_an_incident(spec) + 1,
    }
    if not (isinstance(work, Boosting) and work.early_stopping_rounds is not None):  # which scores after every round
        found[GOODPUT_LIMIT] = GOODPUT
    if saves.every_seconds:
        found[UNSAVED_SECONDS_LIMIT] = round(MISSED_SAVES * saves.every_seconds) + SAVES * save_seconds
    if saves.every_steps:
        found[UNSAVED_STEPS_LIMIT] = MISSED_SAVES * saves.every_steps + LOG_INTERVALS * work.log_every_steps
    return found
