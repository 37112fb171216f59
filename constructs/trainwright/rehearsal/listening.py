"""Where a process tree listens, for the reason of a probe that nobody answers. Linux only; elsewhere nothing is known."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


def listening_addresses(root: int) -> list[str]:
    """``address:port`` of every TCP socket that ``root`` or a descendant of it listens on, sorted."""
    inodes = {inode for pid in _tree(root) for inode in _socket_inodes(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in inodes:
                    found.add(_address(fields[1]))
    return sorted(found)


def _tree(root: int) -> Iterator[int]:
    yield root
    with suppress(OSError):
        for listing in (_PROC / str(root) / "task").glob("*/children"):
            for child in listing.read_text().split():
                yield from _tree(int(child))


def _socket_inodes(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _address(field: str) -> str:
    """``0200007F:24B8`` is 127.0.0.2:9400: the kernel prints 32-bit words in the machine's byte order."""
    words, _, port = field.partition(":")
    packed = b"".join(int(words[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(words), 8))
    if len(packed) == 4:
        return f"{IPv4Address(packed)}:{int(port, 16)}"
    return f"[{IPv6Address(packed)}]:{int(port, 16)}"
