"""Where the pods of one rehearsal are on this machine: what a network does, and the one of loopback addresses.

torch's store and TensorFlow's servers listen on all addresses, and so take their port from every process of the machine. So on
loopback addresses each port where ranks meet is replaced by one that no other rehearsal uses; others stay, for a program may know
its own by heart. Two rehearsals never have the same addresses: each holds the first port of its block for as long as it lives.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from trainwright.rehearsal.stated.objects import UsageError

NetworkMode = Literal["own", "loopback"]
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that name a network interface of the cluster's machines."""
FIRST_PORT, PORTS, BLOCKS = 12000, 40, 500
"""Below the ports that the kernel gives to outgoing connections (ip_local_port_range)."""
FIRST_ADDRESS = IPv4Address("127.64.0.0")
ADDRESSES = 256
"""Of a block; 200 pods at most."""
_BEFORE = r"""(?i:port["']?\s*[=:\s\0]\s*["']?|(?<![\w-])-p[\s\0=]?|[\w.\]]:)"""
"""What a number follows that is a port: a name that ends so, ssh's option, or a host."""


class Network:
    """Addresses of pods, each the number of its slot; and ports, which stay where each pod has all of them."""

    interface = ""
    """What a pod calls its own."""
    has_names = False
    """Whether a pod finds others by their names. Else names in its texts are replaced by addresses."""
    replaced = ""
    """``29500 -> 12001, …``."""
    note = ""
    """How pods are connected, and why so."""

    def __init__(self, addresses: IPv4Address) -> None:
        self._addresses = addresses

    def address(self, number: int) -> str:
        return str(self._addresses + number + 1)

    def port(self, declared: int, pod: int | None = None) -> int:
        """What stands for a port here; for one pod, its own if it has one."""
        return declared

    def own_port(self, declared: int, pod: int) -> int:
        """For a server of which each pod has one, and which listens on all addresses."""
        return declared

    def rewrite(self, text: str) -> str:
        """Replace the ports in text, wherever a number is one."""
        return text

    def attach(self, number: int) -> None:
        """A pod comes."""

    def detach(self, number: int) -> None:
        """Nothing of it is left."""

    def connect(self, number: int, port: int, timeout: float, host: str = "") -> socket.socket:
        """To a port of a pod's, as the kubelet of its node does."""
        return socket.create_connection((host or self.address(number), port), timeout)

    def namespaces(self, number: int) -> tuple[int, ...]:
        """Descriptors of those that its containers enter; none where all share this machine's."""
        return ()

    def mount_memory(self, number: int, folder: Path, size: int | None) -> None:
        """A file system in memory for a pod, in the namespace of mounts that its containers enter."""
        raise NotImplementedError

    def plug(self, number: int, state: Literal["in", "out"]) -> None:
        """Pull a pod's cable, or put it back in; nothing where pods share this machine's network."""


class Loopback(Network):
    """One block of addresses and ports.

    Args:
        block: its number.
        declared: ports where ranks meet.
        why: pods have no networks of their own.
    """

    interface = "lo" if sys.platform == "linux" else "lo0"

    def __init__(self, block: int = 0, declared: Iterable[int] = (), why: str = "") -> None:
        super().__init__(FIRST_ADDRESS + ADDRESSES * block)
        self.note = f"on loopback addresses: {why}"
        self._free = _free_ports(block)
        self._ports = {port: next(self._free) for port in sorted(set(declared))}
        self._own: dict[tuple[int, int], int] = {}
        numbers = "|".join(map(str, self._ports)) or "(?!)"
        self._told = re.compile(rf"({_BEFORE})({numbers})(?![\w.])")
        self.replaced = ", ".join(f"{declared} -> {here}" for declared, here in self._ports.items())

    def port(self, declared: int, pod: int | None = None) -> int:
        own = None if pod is None else self._own.get((pod, declared))
        return own or self._ports.get(declared, declared)

    def own_port(self, declared: int, pod: int) -> int:
        if (pod, declared) not in self._own:
            self._own[pod, declared] = next(self._free)
        return self._own[pod, declared]

    def rewrite(self, text: str) -> str:
        return self._told.sub(lambda match: f"{match[1]}{self._ports[int(match[2])]}", text)


@contextmanager
def loopback(declared: Iterable[int], why: str) -> Iterator[Loopback]:
    """A network that no other rehearsal of this machine has. Raises :class:`UsageError` where every block is taken."""
    for block in range(BLOCKS):
        try:
            held = socket.create_server(("127.0.0.1", FIRST_PORT + PORTS * block))
        except OSError:
            continue
        with closing(held):
            yield Loopback(block, declared, why)
        return
    raise UsageError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORTS * BLOCKS} is free on this machine")


def _free_ports(block: int) -> Iterator[int]:
    """Those of the block that nothing listens on, then any that the kernel finds."""
    first = FIRST_PORT + PORTS * block
    for port in range(first + 1, first + PORTS):
        with socket.socket() as attempt:
            try:
                attempt.bind(("", port))
            except OSError:
                continue
        yield port
    while True:
        with socket.socket() as attempt:
            attempt.bind(("", 0))
            port = attempt.getsockname()[1]
        yield port
