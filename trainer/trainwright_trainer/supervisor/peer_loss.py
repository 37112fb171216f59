"""What follows when a pod of a running attempt is lost: every other pod leaves, and a new attempt starts with all of them.

The only place that decides it, for node 0's coordinator and for the pods that lose node 0. A collective cannot go on without a
rank, and NCCL alone would take minutes to say so.
"""

from __future__ import annotations

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.supervisor.wire.messages import Leave

PATIENCE_SECONDS = 2.0
"""How long the ranks of a pod that must leave have to report what they know themselves."""


def leave_without_peer(cause: Cause, *, silent: bool = False, stopping: bool = False) -> Leave:
    """What the pods that are left must do.

    Args:
        cause: Names the pod that is lost.
        silent: It fell silent, so that time has been lost already: no patience with the ranks.
        stopping: The run was told to end, and cannot save any more without that pod.
    """
    code = ExitCode.PREEMPTED_NOT_SAVED if stopping else ExitCode.PEER_LOST
    return Leave(code=code, cause=cause, patience_seconds=0 if silent else PATIENCE_SECONDS)
