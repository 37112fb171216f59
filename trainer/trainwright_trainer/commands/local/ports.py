"""Ports of this machine for runs that it plays, of which several may begin at once."""

from __future__ import annotations

import errno
import itertools
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"
EVERY_ADDRESS = ""

BLOCK_SIZE = 128
_FIRST, _USUAL_END = 20_000, 32_768
_GIVEN_TO_ANYBODY = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """One of :func:`free_ports`."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that are free on every address. Other processes that ask here get others.

    Raises:
        OSError: So many are not free.
    """
    chosen: list[int] = []
    for port in itertools.islice(_own_block(), BLOCK_SIZE - 1):
        if _is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(errno.EADDRINUSE, f"{count} ports are wanted, and {len(chosen)} of this process's are free")


@contextmanager
def own_port(wanted: int) -> Iterator[int]:
    """The port that a run wants, where it can have it; else another that is free.

    Runs that begin at once would all find the port free, and one of them would get it. So a run that finds it free claims it
    until the block is left.
    """
    with _datagram_socket() as claim:
        yield wanted if _is_claimed(claim, wanted) and _is_free(wanted) else free_port()


def blocks() -> range:
    """First ports of blocks. They end below the ports that the system gives to connections and to programs that ask for any port.

    One of those could be taken between the choice and the moment when a server listens there. Linux has them from 32768 unless
    it is told otherwise, and macOS from 49152. Where they leave no room, the usual blocks have to do.
    """
    usual = range(_FIRST, _USUAL_END - BLOCK_SIZE + 1, BLOCK_SIZE)
    try:
        first_given = int(_GIVEN_TO_ANYBODY.read_text().split()[0])
    except (OSError, ValueError, IndexError):  # no Linux
        return usual
    return range(_FIRST, min(_USUAL_END, first_given) - BLOCK_SIZE + 1, BLOCK_SIZE) or usual


@cache
def _own_block() -> Iterator[int]:
    """The ports of a block that no other process chooses from, over and over. The first is its claim and is not among them."""
    choice = blocks()
    for first in random.SystemRandom().sample(choice, len(choice)):
        claim = _datagram_socket()
        if _is_claimed(claim, first):
            return _around(claim, range(first + 1, first + BLOCK_SIZE))
        claim.close()
    raise OSError(errno.EADDRINUSE, f"other processes hold all ports from {_FIRST} that runs are given on this machine")


def _around(claim: socket.socket, ports: range) -> Iterator[int]:
    with claim:
        yield from itertools.cycle(ports)


def _datagram_socket() -> socket.socket:
    """Bound to a port, it claims the port of the same number among those who ask here.

    TCP and UDP count their ports apart, so it stands in nobody's way, and the kernel takes it back however the process ends.
    """
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _is_claimed(claim: socket.socket, port: int) -> bool:
    """Whether this socket has the claim now."""
    try:
        claim.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    try:
        for address in (LOOPBACK, EVERY_ADDRESS):
            socket.create_server((address, port)).close()
    except OSError:
        return False
    return True
