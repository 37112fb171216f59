"""The end of a rank's process: its grace period, and a documented code, a cause and a line in the log for every way out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import cause_of, code_of, own_code
from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.rank.link import Link, open_link
from trainwright_trainer.rank.messages import ATTEMPT_ENV


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


Train = Callable[[Mapping[str, str], Link], ExitCode]
"""One attempt of one rank, from its environment to the code of an end in order."""


def attempt(train: Train, environment: Mapping[str, str]) -> ExitCode:
    """Open the link and train; every error becomes a code."""
    configure("unknown", "unknown", environment.get(ATTEMPT_ENV))
    link = open_link(environment)
    link.phase("starting")
    try:
        return train(environment, link)
    except BaseException as error:
        return fail(error, environment, link)


def fail(error: BaseException, environment: Mapping[str, str], link: Link) -> ExitCode:
    """Say what ended this rank, in the log and to the supervisor."""
    rank = environment.get("RANK", "")
    code, cause = code_of(error), cause_of(error, int(rank) if rank.isdecimal() else None)
    get_log().error("rank_failed", code=int(code), reason=cause.message, exc_info=error if own_code(error) is None else None)
    link.result(code, cause)
    return code


def leave(code: int) -> NoReturn:
    """End the process hard: a stuck collective or a library's thread must not hold it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
