"""The network interface that holds this rank's own address, for gloo.

Where nobody names one, torch takes the address of the host's own name (``createDefaultDevice``, ProcessGroupGloo.cpp). On a
node's own network that is often 127.0.1.1, as Debian writes it into /etc/hosts, or nothing at all: then the other nodes are given
an address that leads them to themselves.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.place import Place

GLOO_ENV, NCCL_ENV = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
_ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses of nobody (RFC 5737, RFC 3849): the way to them is the way out of this machine."""
_ANY_PORT = 9
_HEADER, _ADDRESS, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")
_GET, _NEW, _DONE, _ERROR, _DUMP = 22, 20, 3, 2, 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_READ_BYTES = 1 << 16

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Found:
    interface: str
    because: str


def name_interface(environ: MutableMapping[str, str], place: Place) -> None:
    """Set ``GLOO_SOCKET_IFNAME`` to what :func:`own_interface` finds, unless it is set. Call before torch connects the ranks."""
    if environ.get(GLOO_ENV):
        return
    found = own_interface(environ, held(), alone=place.world_size == int(environ.get("LOCAL_WORLD_SIZE", "0")))
    if found is None:
        return
    environ[GLOO_ENV] = found.interface
    if place.leads_node:
        get_log().info("interface", name=found.interface, reason=found.because)


def own_interface(environ: Mapping[str, str], addresses: Mapping[Address, str], *, alone: bool) -> Found | None:
    """The interface of the first of these that this machine holds: the address that the pod was told to listen on; the one from
    which it reaches rank 0; the interface of NCCL; the address of the host's name; the one from which it reaches the outside, by
    IPv4 if it can; the first interface that has an address. Only ranks that are all in one pod meet on the loopback.

    Args:
        environ: Of the rank.
        addresses: Of this machine -> the interface, by its index. Where several hold one address, the first has it.
        alone: All ranks are in this pod.
    """
    open_to_others = {address: name for address, name in addresses.items() if alone or not address.is_loopback}
    for address, because in _own_addresses(environ):
        if because is _NAMED and (named := _of_nccl(environ.get(NCCL_ENV, ""), open_to_others)):
            return Found(named, f"{NCCL_ENV} names it")
        if address in open_to_others:
            return Found(open_to_others[address], f"it holds {address}, {because}")
    others = [(name, address) for address, name in open_to_others.items() if not (address.is_loopback or address.is_link_local)]
    return Found(others[0][0], f"it is the first with an address, {others[0][1]}") if others else None


_NAMED = "as the host's name says"


def _own_addresses(environ: Mapping[str, str]) -> Iterator[tuple[Address | None, str]]:
    yield _parsed(environ.get(BIND_ENV, "")), f"as {BIND_ENV} says"
    yield _on_the_way_to(environ.get("MASTER_ADDR", "")), "from which this rank reaches rank 0"
    yield None, _NAMED
    for address in _resolved(environ.get("HOSTNAME") or socket.gethostname()):
        yield address, _NAMED
    for elsewhere in _ELSEWHERE:
        yield _on_the_way_to(elsewhere), "from which this machine reaches others"


def _of_nccl(names: str, addresses: Mapping[Address, str]) -> str | None:
    """``eth,ib`` are beginnings of names, ``=eth0`` whole ones, and ``^docker`` what is not to be used (NCCL's documentation)."""
    if not names or names.startswith("^"):
        return None
    exact, wanted = names.startswith("="), [name for name in names.lstrip("=").split(",") if name]
    here = list(addresses.values())
    return next((each for name in wanted for each in here if each == name or (not exact and each.startswith(name))), None)


def _parsed(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return None if address.is_unspecified else address


def _resolved(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [address for *_, where in found if (address := _parsed(str(where[0]))) is not None]


def _on_the_way_to(host: str) -> Address | None:
    """This machine's end of the way to a host, by the kernel's routes. Nothing is sent."""
    for address in _resolved(host) if host else []:
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as way:
            try:
                way.connect((str(address), _ANY_PORT))
            except OSError:
                continue
            return _parsed(way.getsockname()[0])
    return None


def held() -> dict[Address, str]:
    """Addresses of this machine -> their interface, in the order of interfaces, IPv4 first. Empty where no kernel tells."""
    try:
        answers = list(_asked())
        names = dict(socket.if_nameindex())
    except (OSError, AttributeError, struct.error):  # another system than Linux has no such socket
        return {}
    ordered = sorted(answers, key=lambda answer: (answer[1].version, answer[0]))
    found: dict[Address, str] = {}
    for index, address in ordered:
        if index in names:
            found.setdefault(address, names[index])
    return found


def _asked() -> Iterator[tuple[int, Address]]:
    """RTM_GETADDR of rtnetlink(7): index of an interface, and an address that it holds."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + _ADDRESS.size, _GET, _DUMP, 1, 0) + _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
        while True:
            data = kernel.recv(_READ_BYTES)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind in (_DONE, _ERROR):
                    return
                if kind == _NEW:
                    yield from _in_message(data[_HEADER.size:length])
                data = data[(length + 3) & ~3:]


def _in_message(body: bytes) -> Iterator[tuple[int, Address]]:
    *_, index = _ADDRESS.unpack_from(body)
    attributes: dict[int, bytes] = {}
    rest = body[_ADDRESS.size:]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        attributes[kind] = rest[_ATTRIBUTE.size:length]
        rest = rest[(max(length, _ATTRIBUTE.size) + 3) & ~3:]
    own = attributes.get(_IFA_LOCAL, attributes.get(_IFA_ADDRESS))  # between two points, IFA_ADDRESS is the other end
    if own is not None:
        yield index, ipaddress.ip_address(own)
