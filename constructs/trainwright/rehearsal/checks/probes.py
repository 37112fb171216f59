"""Probes that would never pass: of a port, path or protocol that the container does not serve.

Where a program of its author's listens is not known; a rehearsal finds that out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.command.model import Simple
from trainwright.command.reading import read
from trainwright.rehearsal.checks.agreements import started
from trainwright.rehearsal.stated.kinds import Container, Probe
from trainwright.rehearsal.stated.objects import Blocker, Slot, Specification
from trainwright_trainer.contract.layout import SPEC_ENV

SERVED = ("/livez", "/readyz", "/metrics")
"""Paths of the supervisor (trainwright_trainer.supervisor)."""
HTTP = "http"
"""Name of the container port where the supervisor serves."""
NODE = ("localhost", "127.0.0.1", "::1")
_ASKED = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\]|\$[({]?\w*IP[)}]?):(\d+)")


def check_probes(slot: Slot, container: Container, specification: Specification | None, where: str) -> Iterator[Blocker]:
    """Everything that the manifests show to be wrong with them."""
    reads = any(one.name == SPEC_ENV for one in container.env)
    told = specification if reads and specification and specification.supervises else None
    simple = read(tuple(started((*container.command, *container.args)))).simple
    listened = {*(_listened(told) if told else ()), *(port for one in simple if one.program == "sshd" for port in _ports_of(one))}
    for field, probe in container.probes:
        for message, fix in _wrong(container, probe, slot.spec.host_network, told, listened):
            yield Blocker(f"{where}, {field}", message, fix)


def _wrong(
    container: Container, probe: Probe, host_network: bool, told: Specification | None, listened: set[int]
) -> Iterator[tuple[str, str]]:
    target = probe.http_get or probe.tcp_socket
    if target is None:
        if told is not None:
            yield from _wrong_program(probe, told)
        return
    number = container.port_number(target.port)
    if number is None:
        yield f"couldn't find port: {target.port}", known_ports(container)
    elif target.host in NODE and not host_network:
        yield f"the kubelet asks from the node, where {target.host} is the node itself", "remove host: it asks the pod"
    elif told is not None and probe.http_get is not None:
        yield from _wrong_request(probe, number, told)
    elif probe.tcp_socket is not None and listened and number not in listened:
        known = ", ".join(map(str, sorted(listened)))
        yield f"it connects to port {number}, where nothing listens: the container listens on {known}", "write one of those"


def _wrong_request(probe: Probe, number: int, told: Specification) -> Iterator[tuple[str, str]]:
    """Of the supervisor's server."""
    asked = probe.http_get
    path = asked.path.partition("?")[0] if asked else ""
    if asked and asked.port == HTTP:
        number = told.spec.http_port  # where the port of that name has another number, that is said of it
    if number != told.spec.http_port:
        yield (f"it probes port {number}, and http_port in {told.where} is {told.spec.http_port}: nothing would answer",
               "make the two equal")
    elif path not in SERVED:
        yield f"the supervisor answers {path} with 404, so that it never passes", f"write one of {', '.join(SERVED)}"
    elif asked and asked.scheme != "HTTP":
        yield "the supervisor speaks plain HTTP, so that it never passes", "write scheme: HTTP, or remove it"


def _wrong_program(probe: Probe, told: Specification) -> Iterator[tuple[str, str]]:
    """What it runs in the container, or asks by gRPC."""
    if probe.grpc is not None:
        yield "the supervisor speaks no gRPC, so that it never passes", "write httpGet with the port http"
    for port in dict.fromkeys(_ASKED.findall(" ".join(probe.exec.command if probe.exec else ()))):
        if int(port) not in _listened(told):
            yield (f"it asks port {port}, where nothing listens by {told.where}", f"write http_port, {told.spec.http_port}")


def _listened(told: Specification) -> set[int]:
    meeting = told.meeting
    return {told.spec.http_port, *((meeting.port, meeting.control_port) if meeting else ())}


def _ports_of(sshd: Simple) -> list[int]:
    """By its options; where none states one, its file of settings may."""
    words = " ".join(word.text for word in sshd.words[sshd.start :])
    return [int(port) for port in re.findall(r" -(?:\w*p ?|o ?Port=)(\d+)", words)]


def known_ports(container: Container) -> str:
    names = ", ".join(f"{port.name or 'unnamed'} {port.container_port}" for port in container.ports)
    return f"container {container.name} has {f'the ports {names}' if names else 'no ports'}"
