"""The grace period of a pod that is told to end, and how much of it a save may take."""

from __future__ import annotations

import time

from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.observe.log import get_log


def seconds_for_save(grace_seconds: float, asked_at: float | None = None) -> float:
    """What is left now for a save.

    Args:
        grace_seconds: From SIGTERM to SIGKILL.
        asked_at: On this machine's monotonic clock, when the run was told to end; None if it was not.
    """
    waited = 0.0 if asked_at is None else time.monotonic() - asked_at
    return max(0.0, grace_seconds - EXIT_MARGIN_SECONDS - waited)


def warn_of_slow_save(seconds: float, grace_seconds: float) -> None:
    """Say after a save that a run that is told to end could not make it: while there is time to give it more."""
    if seconds > (left := seconds_for_save(grace_seconds)):
        reason = "a run that is told to end would lose what it has not saved; raise the grace period, or save faster"
        get_log().warning("save_exceeds_grace", seconds=round(seconds, 3), seconds_for_save=round(left, 3), reason=reason)
