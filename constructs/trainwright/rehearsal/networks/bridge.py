"""Networks of the pods' own: each pod has a network namespace, on a bridge that only the rehearsal has.

Where the kernel lets a user have namespaces. What it gives is found out by trying: a container starts before the first pod does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from trainwright.rehearsal.networks.network import Network, NetworkMode, loopback
from trainwright.rehearsal.stated.objects import UsageError

PYTHON = (sys.executable, "-I", "-S")
"""Without anything of this environment's, so that it starts in milliseconds."""
BRIDGE_INIT = Path(__file__).with_name("bridge_init.py")
NETWORK = IPv4Network("10.244.0.0/16")
"""kubeadm's usual network of pods. No route leads out of it."""


class Bridge(Network):
    """What :mod:`bridge_init` holds. May be used from several threads."""

    interface, has_names, note = "eth0", True, "each with a network of its own"

    def __init__(self, asked: socket.socket, holder: int) -> None:
        super().__init__(NETWORK.network_address)
        self._asked, self._lock = asked, threading.Lock()
        self._ask("users")
        _map_users(holder)
        self._common = self._ask("start")
        self._pods: dict[int, int] = {}

    def attach(self, number: int) -> None:
        self.detach(number)
        [self._pods[number]] = self._ask("attach", f"pod{number}", self.address(number))

    def detach(self, number: int) -> None:
        if number in self._pods:
            os.close(self._pods.pop(number))
            self._ask("detach", f"pod{number}")

    def connect(self, number: int, port: int, timeout: float, host: str = "") -> socket.socket:
        [descriptor] = self._ask("socket", f"pod{number}")
        connection = socket.socket(fileno=descriptor)
        try:
            connection.settimeout(timeout)
            connection.connect((host or self.address(number), port))
        except BaseException:
            connection.close()
            raise
        return connection

    def namespaces(self, number: int) -> tuple[int, ...]:
        return (*self._common, self._pods[number])

    def plug(self, number: int, state: Literal["in", "out"]) -> None:
        if number in self._pods:
            self._ask("plug", f"pod{number}", state)

    def mount_memory(self, number: int, folder: Path, size: int | None) -> None:
        self._ask("memory", f"pod{number}", str(folder), "" if size is None else str(size))

    def _ask(self, *words: str) -> list[int]:
        """The descriptors that come with the answer."""
        with self._lock:
            self._asked.send("\0".join(words).encode())
            answer, descriptors, _, _ = socket.recv_fds(self._asked, 1 << 12, 2)
        if answer != b"ok":
            raise OSError(0, answer.decode() or "the process that holds the networks of the pods has ended")
        return descriptors


@contextmanager
def open_network(declared: Iterable[int], wanted: NetworkMode | None, trial: Callable[[Network], None]) -> Iterator[Network]:
    """Networks of the pods' own where this machine lets them be, else loopback addresses.

    Args:
        declared: ports where ranks meet.
        wanted: what there must be.
        trial: raises OSError where the namespaces are there and a container cannot enter them.

    Raises:
        UsageError: there cannot be what is wanted.
    """
    why = "as you asked"
    with ExitStack() as stack:
        if wanted != "loopback":
            try:
                yield stack.enter_context(_bridge(trial))
                return
            except _NotHereError as error:
                why = str(error)
        if wanted == "own":
            raise UsageError(f"--network own: {why}; write --network loopback, or leave it out")
        yield stack.enter_context(loopback(declared, why))


class _NotHereError(Exception):
    """Why this machine gives no namespaces."""


@contextmanager
def _bridge(trial: Callable[[Network], None]) -> Iterator[Bridge]:
    if sys.platform != "linux":
        raise _NotHereError("network namespaces are Linux's")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            words = [*PYTHON, str(BRIDGE_INIT), str(theirs.fileno()), str(NETWORK)]
            holder = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
        try:
            try:
                network = Bridge(ours, holder.pid)
                trial(network)
            except OSError as error:
                raise _NotHereError(f"this machine gives pods no network namespaces ({error.strerror or error})") from None
            yield network
        finally:
            ours.close()
            holder.wait()


def _map_users(holder: int) -> None:
    """Each user is itself, as far as the caller may say so."""
    for kind, own in (("uid", os.geteuid()), ("gid", os.getegid())):
        here = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text().splitlines()]
        if os.geteuid() == 0:
            text = "".join(f"{first} {first} {count}\n" for first, _, count in here)
        else:
            text = f"{own} {own} 1"
            Path(f"/proc/{holder}/setgroups").write_text("deny")
        Path(f"/proc/{holder}/{kind}_map").write_text(text)
