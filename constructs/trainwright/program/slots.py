"""Ranks that mpirun is to start, against the slots of its hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trainwright.command.launchers import Launch

HOST_FILES = ("--hostfile", "-hostfile", "--machinefile", "-machinefile", "--default-hostfile", "-machine", "-f")
HOSTS = ("--host", "-host", "-H", "-hosts", "--hosts")
_DISCOVERY = ("--host-discovery-script",)
PROCESSES = ("-np", "--np", "-n", "--n", "-c")
PER_POD = ("-N", "--N", "-npernode", "--npernode")
_PPR = re.compile(r"ppr:(\d+):node\b")


class Slots(NamedTuple):
    """Of all hosts together, and of each."""

    total: int
    each: int
    counted: str
    """What they are the product of."""
    implementation: str = "openmpi"
    nodes: str = ""
    """How to have more hosts, as the end of a sentence."""
    topology: str = ""
    """How to have others."""

    def against(self, launch: Launch) -> Iterator[tuple[str, str, str]]:
        """Code, message and fix of what a launcher says of them."""
        yield from self._in_all(launch)
        if self.implementation == "openmpi" and launch.name == "mpirun":
            yield from self._in_a_pod(launch)

    def _in_all(self, launch: Launch) -> Iterator[tuple[str, str, str]]:
        given = launch.values(PROCESSES)
        if not given or not given[0].isdigit() or int(given[0]) == self.total:
            return
        asked, counted = int(given[0]), f"({self.counted} = {self.total})"
        if asked > self.total:
            message = f"{launch.program} is to start {asked} ranks, and there are {self.total} slots {counted}"
            yield "TW420", message, f"write {self.total}{self.nodes and f', or change {self.nodes}'}"
        else:
            idle = f"{self.total - asked} of {self.total} slots stay idle"
            message = f"{launch.program} is to start {asked} ranks, and {idle} {counted}"
            yield "TW423", message, f"write {self.total}{self.nodes and f', or lower {self.nodes}'}"

    def _in_a_pod(self, launch: Launch) -> Iterator[tuple[str, str, str]]:
        """As far as Open MPI is told. Hydra goes round the hosts again for those that are left."""
        mapped = [match[1] for value in launch.values(("--map-by", "-map-by")) if (match := _PPR.match(value))]
        stated = [value for value in (*launch.values(PER_POD), *mapped) if value.isdigit()]
        if not stated:
            return
        change = self.topology and f", or change {self.topology}"
        slots, each, ranks = self.total, self.each, launch.values(PROCESSES)
        in_pod, places = int(stated[0]), int(stated[0]) * (slots // each)
        if in_pod > each:
            message = f"{launch.program} is to start {in_pod} ranks in a pod, and a pod has {each} slots"
            yield "TW420", message, f"write {each}{change}"
        elif ranks and ranks[0].isdigit() and places < int(ranks[0]) <= slots:
            message = f"{launch.program} is to start {ranks[0]} ranks and at most {in_pod} in a pod, which makes {places}"
            yield "TW420", message, f"write {each} for {in_pod}, or remove it"
        elif not ranks and places < slots:
            message = f"{launch.program} is to start {in_pod} ranks in a pod, and {slots - places} of {slots} slots stay idle"
            yield "TW423", message, f"write {each}{change}"


def knows_hosts(launch: Launch) -> bool:
    """Whether its command line says where ranks start, or may say it."""
    return launch.is_open or not launch.names.isdisjoint((*HOST_FILES, *HOSTS, *_DISCOVERY))


def without_hosts(launch: Launch, host_file: str) -> Iterator[tuple[str, str, str]]:
    """Code, message and fix: no variable tells horovodrun of hosts (horovod/runner/launch.py)."""
    if launch.name == "horovodrun" and not knows_hosts(launch):
        message = "without --hostfile or -H horovodrun starts all ranks in the launcher's pod"
        yield "TW420", message, f"add --hostfile {host_file}"
