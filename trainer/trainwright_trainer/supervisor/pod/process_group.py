"""The processes of a rank's group: who hears that the run is to end, and whether anybody is left.

A script is often a shell that runs a program. A shell dies of SIGTERM at once, or waits for its program before it acts; either
way the program would never hear of it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SHELLS = frozenset({b"sh", b"bash", b"dash", b"ash", b"busybox", b"ksh", b"zsh"})


@dataclass(frozen=True, slots=True)
class Member:
    parent: int
    command: bytes
    """Its arguments, with a zero byte after each."""
    reads: str
    """The pipe that is its standard input, as the kernel names it; empty for any other input."""
    writes: frozenset[str]
    """Those that are its standard output and standard error."""


def members(leader: int) -> dict[int, Member]:
    """Processes of a group by their ids, without zombies. Empty where there is no /proc."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            state, parent, group, *_ = stat.read_bytes().rpartition(b")")[2].split()  # proc_pid_stat(5)
            if int(group) == leader and state not in (b"Z", b"X"):
                reads, *writes = (_pipe(stat.parent / "fd" / number) for number in "012")
                command = (stat.parent / "cmdline").read_bytes()
                found[int(stat.parent.name)] = Member(int(parent), command, reads, frozenset(writes) - {""})
    return found


def _pipe(descriptor: Path) -> str:
    try:
        target = os.readlink(descriptor)
    except OSError:  # closed, or somebody else's
        return ""
    return target if target.startswith("pipe:") else ""


def tell_to_end(leader: int) -> set[int]:
    """SIGTERM to the processes of a group. Gives those that have heard.

    What reads another one's output, as ``tee`` does, ends with it, and would take its last lines along. And the workers that a
    program made of itself are that program's to end: torch's loader of data takes the end of one for a failure, in the middle of
    a save. Neither of them hears.
    """
    found = members(leader)
    written = {sink for member in found.values() for sink in member.writes}
    told = {leader} | {
        pid for pid, member in found.items() if member.reads not in written and not _works_for(member, found.get(member.parent))
    }
    for pid in told:
        _tell(pid)
    return told


def tell_orphans(leader: int, told: set[int]) -> bool:
    """SIGTERM to those of a group that have lost their parent and have not heard of it. Gives whether anybody is left."""
    found = members(leader)
    for pid in [pid for pid, each in found.items() if each.parent not in found and pid not in told and not each.reads]:
        told.add(pid)
        _tell(pid)
    return bool(found)


def _works_for(member: Member, parent: Member | None) -> bool:
    """By its command line, which a fork leaves as it is and ``multiprocessing`` names."""
    if parent is None or os.path.basename(parent.command.partition(b"\0")[0]) in _SHELLS:
        return False
    return member.command == parent.command or b"multiprocessing" in member.command


def _tell(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)
