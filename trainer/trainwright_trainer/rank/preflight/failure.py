"""How a check fails, and the end of a rank whose node is not fit."""

from __future__ import annotations

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError


class UnfitError(Exception):
    """A check failed. The message says what was found, and not where."""


class NodeUnhealthyError(RankError):
    """A check failed. The message names the node, to be cordoned."""

    exit_code = ExitCode.NODE_UNHEALTHY
