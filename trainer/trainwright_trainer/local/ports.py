"""Ports of the loopback interface for runs of this machine, of which several may begin at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOPBACK = "127.0.0.1"
ANY_PORT = 0
"""The kernel chooses, among those that nobody has."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, no two alike. Each may be taken by somebody else until whoever asked listens there."""
    with ExitStack() as held:  # all of them until the last is found, so that no two are one
        listeners = [held.enter_context(_listen(ANY_PORT)) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


@contextmanager
def own_port(wanted: int) -> Iterator[int]:
    """The port that a run wants, where it can have it; else another that is free.

    Runs that begin at once would all find the port free, and one of them would get it. So a run that finds it free holds a
    datagram socket of the same number until the block is left: TCP and UDP count their ports apart, so it stands in nobody's way,
    and the kernel takes it back however the process ends.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as claim:
        yield wanted if _is_granted(claim, wanted) else free_ports(1)[0]


def _is_granted(claim: socket.socket, port: int) -> bool:
    try:
        claim.bind((LOOPBACK, port))
        _listen(port).close()
    except OSError:
        return False
    return True


def _listen(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))
