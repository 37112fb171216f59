"""The signals that tell a pod to end, held back while nobody can act on them. Imports nothing heavy: it runs first of all.

Process 1 of a container has no default action: a SIGTERM that comes before its handler is there is lost, and the pod would go on
until it is killed. The kernel keeps a blocked signal, for process 1 too, and delivers it when it is let through.
"""

from __future__ import annotations

import signal

ENDING = (signal.SIGTERM, signal.SIGINT)


def hold() -> None:
    """Keep them pending. Threads and processes started meanwhile inherit this, so start no rank before :func:`release`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def release() -> None:
    """Let through what came and what comes. Call in the main thread, once handlers are in place."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
