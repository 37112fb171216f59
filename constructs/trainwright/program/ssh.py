"""The port on which sshd listens in one pod, and the one that a launcher in another goes to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.command.launchers import launches
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.objects.fields import items, text
from trainwright.program.container import Program

_PORT = re.compile(r"(?:^|\s)-p\s*(\d+)|\bPort[= ](\d+)")
_OF_SSH = re.compile(r"(OMPI|PRTE)_MCA_plm_((rsh|ssh)_args|rsh_agent)|(HYDRA_LAUNCH|I_MPI_HYDRA_BOOTSTRAP_EXEC)_EXTRA_ARGS")
"""Variables that hold options of ssh, for Open MPI, MPICH and Intel MPI."""
_OPTIONS = {"horovodrun": ("-p", "--ssh-port"), "deepspeed": ("--ssh-port",)}


def reaches_sshd(programs: Sequence[Program]) -> Iterator[Finding]:
    """As far as both say it: what neither a command nor a variable says is in files of the image."""
    listens = {port for program in programs for port in _listens(program)}
    for program in programs if listens else ():
        for port, place in _reaches(program):
            if port not in listens:
                there = " and ".join(sorted(listens))
                message = f"the launcher goes to port {port} of its workers, and their sshd listens on {there}"
                yield found("TW420", program.where(place), message, f"write -p {there}, the same port in both")
                break


def _listens(program: Program) -> Iterator[str]:
    for simple in program.command.simple:
        if simple.program == "sshd":
            said = " ".join(word.resolved(program.env) or word.text for word in simple.words)
            yield from (match[1] or match[2] for match in _PORT.finditer(said))


def _reaches(program: Program) -> Iterator[tuple[str, str]]:
    """Port and place; a command wins over a variable."""
    for place, command in program.commands():
        for launch in launches(command):
            handed = ((name, word) for name, word in launch.hands_on() if word and _OF_SSH.fullmatch(name))
            stated = [word.resolved(program.env) or "" for _, word in handed]
            yield from ((match[1] or match[2], place) for value in stated for match in _PORT.finditer(value))
            yield from ((port, place) for port in launch.values(_OPTIONS.get(launch.name, ())) if port.isdecimal())
            if launch.name == "mpirun" and not stated:
                for number, one in items(program.container, "/env"):
                    if _OF_SSH.fullmatch(text(one, "/name")):
                        yield from ((match[1] or match[2], f"/env/{number}") for match in _PORT.finditer(text(one, "/value")))
