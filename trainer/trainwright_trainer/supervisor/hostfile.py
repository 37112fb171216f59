"""Host file of mpirun: which hosts there are, and how many ranks each takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.place import mismatch

_SLOTS = re.compile(r"\bslots\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    slots: int


def read_hosts(path: Path, world: World) -> tuple[Host, ...]:
    """The hosts in the order in which mpirun fills them.

    Reads what the operators write: ``host slots=8`` for Open MPI and ``host:8`` for Intel MPI and MPICH (mpi-operator,
    ``newConfigMap``). Raises :class:`Refusal` with TOPOLOGY_MISMATCH where the file cannot be read or says something else than
    ``world``.
    """
    try:
        hosts = tuple(_hosts(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise mismatch(
            f"cannot read the host file {path}: {error.strerror}; the operator mounts it, where world.rendezvous.hostfile says"
        ) from None
    if len(hosts) != world.nodes:
        raise mismatch(f"{path} lists {len(hosts)} hosts and world.nodes is {world.nodes}; make the job's workers agree with it")
    for host in hosts:
        if host.slots != world.processes_per_node:
            raise mismatch(
                f"{path} gives {host.name} {host.slots} slots and world.processes_per_node is {world.processes_per_node}; "
                "make the job's slots per worker agree with it"
            )
    return hosts


def _hosts(text: str) -> Iterator[Host]:
    for line in text.splitlines():
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        name, _, rest = entry.partition(" ")
        host, colon, count = name.partition(":")
        if slots := _SLOTS.search(rest):
            yield Host(name, int(slots[1]))
        elif colon and count.isdigit():
            yield Host(host, int(count))
        else:
            yield Host(name, 1)
