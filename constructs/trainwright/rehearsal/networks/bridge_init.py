"""Holds the namespaces of a rehearsal: one of users, one of mounts, a bridge, and a network for each pod.

All of it is in a user namespace of its own, so that nothing of the machine's network is touched, and the kernel removes it with
the last process in it. Run as ``python -I -S bridge_init.py SOCKET``, the number of a socket whose other end the rehearsal holds:
one request a packet, its words divided by a zero byte, and one answer each, ``ok`` with the descriptors that were asked for or
what is wrong. Ends when that end closes. It imports nothing of this package, to start in milliseconds.
"""

import array
import contextlib
import ctypes
import ipaddress
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_SLAVE, MNT_DETACH = 0x2, 0x4, 0x4000, 0x80000, 0x2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE = 0x1, 0x4, 0x400
RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_NEWROUTE = 16, 17, 20, 24
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 10, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER, IFF_UP = 1, 2, 1, 1
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, RTA_OIF, RTA_GATEWAY = 1, 2, 4, 4, 5
RT_TABLE_MAIN, RTPROT_STATIC, RTN_UNICAST = 254, 4, 1
"""Of linux/rtnetlink.h, linux/if_link.h and linux/veth.h."""
BRIDGE, INTERFACE = "pods", "eth0"


class Holder:
    """Does what the rehearsal asks for."""

    def __init__(self, network: str) -> None:
        self.network = ipaddress.IPv4Network(network)
        self.gateway = self.network[-2]
        self.pods: dict[str, int] = {}
        self.memories: dict[str, list[str]] = {}
        call("unshare", CLONE_NEWNS | CLONE_NEWNET)
        call("mount", None, b"/", None, MS_REC | MS_SLAVE, None)  # mounts of this machine still come in, and none goes out
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        link(BRIDGE, nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"bridge")), hardware(self.gateway), flags=NLM_F_CREATE)
        for name in ("lo", BRIDGE):
            link(name, up=True)
        self.give_address(BRIDGE, self.gateway)
        setting("ip_forward", "1")  # a packet to the world outside is answered at once: there is no route
        setting("icmp_ratemask", "0")

    def namespaces(self) -> list[int]:
        """The user and the mount namespace."""
        return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]

    def attach(self, pod: str, address: str) -> list[int]:
        """A network for a pod, whose only interface is one end of a cable to the bridge."""
        self.detach(pod)
        with contextlib.suppress(OSError):  # what an earlier pod of this address has not sent yet, it sends no more
            request(RTM_DELLINK, 0, header(), attribute(IFLA_IFNAME, pod.encode()))
        call("unshare", CLONE_NEWNET)
        try:
            own = self.pods[pod] = os.open("/proc/self/ns/net", os.O_RDONLY)
            end = header() + attribute(IFLA_IFNAME, pod.encode()) + attribute(IFLA_NET_NS_FD, struct.pack("i", self.home))
            cable = attribute(IFLA_INFO_KIND, b"veth") + nested(IFLA_INFO_DATA, nested(VETH_INFO_PEER, end))
            link(INTERFACE, nested(IFLA_LINKINFO, cable), hardware(ipaddress.IPv4Address(address)), flags=NLM_F_CREATE)
            for name in ("lo", INTERFACE):
                link(name, up=True)
            self.give_address(INTERFACE, ipaddress.IPv4Address(address))
            index = socket.if_nametoindex(INTERFACE)
            route = struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, RTN_UNICAST, 0)
            setting("ip_unprivileged_port_start", "0")  # as containerd 2 and CRI-O have it
        finally:
            call("setns", self.home, CLONE_NEWNET)
        link(pod, attribute(IFLA_MASTER, struct.pack("I", socket.if_nametoindex(BRIDGE))), up=True)
        with self.inside(pod):
            request(RTM_NEWROUTE, NLM_F_CREATE, route, attribute(RTA_GATEWAY, self.gateway.packed),
                    attribute(RTA_OIF, struct.pack("I", index)))
        return [own]

    def detach(self, pod: str) -> list[int]:
        """Forget a pod. Its network stays as long as something in it has a word to say."""
        if pod in self.pods:
            os.close(self.pods.pop(pod))
        for folder in self.memories.pop(pod, []):
            call("umount2", folder.encode(), MNT_DETACH)
        return []

    def plug(self, pod: str, state: str) -> list[int]:
        """Pull a pod's cable out of the bridge, or put it in."""
        link(pod, up=state == "in")
        return []

    def socket(self, pod: str) -> list[int]:
        """A TCP socket inside a pod's network."""
        with self.inside(pod):
            return [socket.socket().detach()]

    def memory(self, pod: str, folder: str, size: str) -> list[int]:
        """Mount a file system in memory for a pod, with a size unless that is empty."""
        options = f"mode=1777{f',size={size}' if size else ''}"
        call("mount", b"shm", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode())
        self.memories.setdefault(pod, []).append(folder)
        return []

    @contextlib.contextmanager
    def inside(self, pod: str) -> Iterator[None]:
        if pod not in self.pods:
            raise ConnectionRefusedError(0, f"pod {pod} has no network any more")
        call("setns", self.pods[pod], CLONE_NEWNET)
        try:
            yield
        finally:
            call("setns", self.home, CLONE_NEWNET)

    def give_address(self, name: str, address: ipaddress.IPv4Address) -> None:
        body = struct.pack("BBBBI", socket.AF_INET, self.network.prefixlen, 0, 0, socket.if_nametoindex(name))
        told = {IFA_LOCAL: address, IFA_ADDRESS: address, IFA_BROADCAST: self.network.broadcast_address}
        request(RTM_NEWADDR, NLM_F_CREATE, body, *(attribute(kind, value.packed) for kind, value in told.items()))


def link(name: str, *attributes: bytes, up: bool | None = None, flags: int = 0) -> None:
    """Make or change an interface."""
    request(RTM_NEWLINK, flags, header(up), attribute(IFLA_IFNAME, name.encode()), *attributes)


def header(up: bool | None = None) -> bytes:
    return struct.pack("BBHiII", socket.AF_UNSPEC, 0, 0, 0, IFF_UP if up else 0, 0 if up is None else IFF_UP)


def hardware(address: ipaddress.IPv4Address) -> bytes:
    """The same for each pod of an address, so that what others remember of it holds."""
    return attribute(IFLA_ADDRESS, b"\x02\x00" + address.packed)


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind, b"".join(attributes))


def request(kind: int, flags: int, body: bytes, *attributes: bytes) -> None:
    """Ask the kernel for a change of this network, by rtnetlink(7)."""
    data = body + b"".join(attributes)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
        asked.send(struct.pack("IHHII", 16 + len(data), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + data)
        error = -struct.unpack_from("i", asked.recv(1 << 16), 16)[0]
    if error:
        raise OSError(error, os.strerror(error))


def setting(name: str, value: str) -> None:
    """Of this network; a container's runtime may have made it read-only."""
    with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
        file.write(value)


def call(name: str, *arguments: bytes | int | None) -> None:
    """A function of libc's that tells by -1 that it failed; what is wrong names it."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main(number: int, network: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=number)
    holder = None
    while words := asked.recv(1 << 16).decode().split("\0"):
        name, *arguments = words
        if not name:
            return
        descriptors: list[int] = []
        try:
            if name == "users":
                call("unshare", CLONE_NEWUSER)
            elif name == "start":
                holder = Holder(network)
                descriptors = holder.namespaces()
            elif holder is not None:
                descriptors = getattr(holder, name)(*arguments)
            answer = "ok"
        except OSError as error:
            answer = error.strerror or str(error)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        asked.sendmsg([answer.encode()], rights)
        for one in descriptors:
            if one not in (holder.pods.values() if holder else ()):
                os.close(one)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
