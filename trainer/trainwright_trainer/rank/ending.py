"""The end of a rank's process: every way out has a documented code, a cause and a line in the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import cause_of, code_of, own_code
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.rank.link import Link, open_link
from trainwright_trainer.rank.messages import ATTEMPT_ENV

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
