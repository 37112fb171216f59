"""Hosts that a command names, and that no pod or Service of its own has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.command.launchers import MPI_LAUNCHERS, Fact, launches
from trainwright.command.model import Command
from trainwright.findings import Finding
from trainwright.findings.codes import found, milder
from trainwright.objects.fields import items, text
from trainwright.program.container import Program
from trainwright.program.launching import MEET_AT_RANK_0, THIS_POD, as_written
from trainwright.program.slots import HOSTS

ASKS = frozenset({"ssh", "getent", "nslookup", "dig", "host", "nc", "ncat", "ping", "wait-for-it", "wait-for-it.sh"})
"""Programs that tell whether a host is there."""
_MEETING = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT")
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_OF_A_POD = re.compile(r"[a-z0-9-]+-[0-9]+")
_INSIDE = re.compile(r".+\.svc(\..+)?|[^.]+")
"""A host of the cluster, by its form: any other name with a dot may be one of the world outside."""


def names_its_peers(program: Program) -> Iterator[Finding]:
    """A name that nobody has is waited for until somebody gives up. That of a pod ends with its number, and cannot belong to
    anything else; a Service may stand in another file.
    """
    if program.hosts is None:
        return
    said = set[str]()
    for place, who, host in _named(program):
        name = host.rpartition(":")[0] if re.search(r":[0-9]+$", host) else host
        known = name in THIS_POD or any(one == name or f"{one}.".startswith(f"{name}.") for one in program.hosts)
        known = known or any(name.startswith(f"{one}.") for one in program.hosts)
        numbered = _OF_A_POD.fullmatch(name.partition(".")[0]) is not None
        if known or name in said or not _NAME.fullmatch(name) or not (_INSIDE.fullmatch(name) or numbered):
            continue
        said.add(name)
        meets, owner = who not in ASKS, program.world.says if program.world else "the run"
        message = f"{who} is given {name}, and no pod or Service of {owner} has this name"
        say = found if numbered and (meets or "." not in name) else milder
        ours = ", ".join(sorted(program.hosts, key=lambda one: (len(one), one))[:3])
        fix = f"use one of: {ours}" if program.world else "write $MASTER_ADDR: pods have it where the command reads it"
        yield say("TW476", program.where(place), message, fix)


def _named(program: Program) -> Iterator[tuple[str, str, str]]:
    """Place, who is given it, and the host."""
    for number, one in items(program.container, "/env" if program.world else "/none"):
        if text(one, "/name") in _MEETING and text(one, "/value"):
            yield f"/env/{number}/value", text(one, "/name"), text(one, "/value")
    for place, command in program.commands():
        yield from ((place, who, host) for who, host in _in_command(command, program.env, program.world is not None))


def _in_command(command: Command, env: Mapping[str, str], launchers: bool) -> Iterator[tuple[str, str]]:
    for launch in launches(command) if launchers else ():
        backend = launch.given("--rdzv-backend")
        for option, fact in launch.launcher.says.items():
            given = launch.given(option)
            meets = fact is Fact.ADDRESS or (fact is Fact.ENDPOINT and (backend is None or backend.text in MEET_AT_RANK_0))
            if given and meets and (host := given.resolved(env)):
                yield as_written(option), host
        if launch.name in MPI_LAUNCHERS:
            listed = (one for value in launch.values(HOSTS) for one in value.split(","))
            yield from ((launch.program, host) for one in listed if (host := one.partition(":")[0]))
    for simple in command.simple:
        if simple.program in ASKS:
            words = simple.words[simple.start + 1 :]
            hosts = [word.resolved(env) for word in words if not word.text.startswith("-")]
            yield from ((simple.program, host) for host in hosts[-2:] if host and "-" in host)


RULES = (names_its_peers,)
