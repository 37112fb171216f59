"""A rank's answer to "where do you hang?": the Python stacks of all its threads, whatever its main thread is in."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Mapping

from trainwright_trainer.rank.messages import STACKS_FD_ENV

STACKS_SIGNAL = signal.SIGUSR2
"""Free in torch, NCCL and Open MPI; mpirun forwards it as it forwards SIGUSR1."""
MAIN_THREAD = "main thread"


def offer_stacks(environment: Mapping[str, str]) -> None:
    """From now on the signal writes stacks to the supervisor's file, if there is one. Call in the main thread.

    ``faulthandler`` writes from the signal handler itself, in C: it needs no Python bytecode to run, so a thread inside a
    collective or a read is shown too.
    """
    descriptor = environment.get(STACKS_FD_ENV)
    if descriptor is None:
        return
    number = int(descriptor)
    os.set_inheritable(number, False)
    os.write(number, f"{MAIN_THREAD} 0x{threading.get_ident():016x}\n".encode())
    faulthandler.register(STACKS_SIGNAL, file=number, all_threads=True)
