"""Ports: do probes, Services, containers and the run's own specification speak of the same ones?"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from trainwright.rehearsal.kinds import Container, PortReference, Probe
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.pod import pod_address
from trainwright.rehearsal.problem import Problem
from trainwright.rehearsal.specification import Specification

MASTER_PORTS = ("MASTER_PORT", "PET_MASTER_PORT")
"""Variables from which torch and torchrun take the port of the rendezvous."""
RENDEZVOUS = "rendezvous"


def port_number(container: Container, port: PortReference) -> int | None:
    """Number of a port; None for a name that the container does not have."""
    if isinstance(port, int):
        return port
    return next((one.container_port for one in container.ports if one.name == port), None)


def probes_of(container: Container) -> Iterator[tuple[str, Probe]]:
    """Field name and probe, in the order in which the kubelet heeds them."""
    for field, probe in (
        ("startupProbe", container.startup_probe),
        ("readinessProbe", container.readiness_probe),
        ("livenessProbe", container.liveness_probe),
    ):
        if probe is not None:
            yield field, probe


def check_ports(objects: Objects, specification: Specification | None) -> Iterator[Problem]:
    """Every disagreement about a port that the manifests show."""
    job = objects.job
    for container in job.pod.containers:
        where = f"Job {job.name}, container {container.name}"
        yield from _check_probes(container, specification, where)
        yield from _check_master_port(container, where)
    for service in objects.services.values():
        for port in service.spec.ports:
            target = port.target_port
            if isinstance(target, str) and all(port_number(container, target) is None for container in job.pod.containers):
                yield Problem(f"Service {service.metadata.name}, port {port.name or port.port}",
                              f"targetPort {target} is the name of no container port", _known_ports(job.pod.containers[0]))
    if specification is not None:
        trains = job.pod.main
        yield from _check_specification(trains, specification, f"Job {job.name}, container {trains.name}")


def _check_probes(container: Container, specification: Specification | None, where: str) -> Iterator[Problem]:
    for field, probe in probes_of(container):
        target = probe.http_get or probe.tcp_socket
        if target is None:
            continue
        number = port_number(container, target.port)
        if number is None:
            yield Problem(f"{where}, {field}", f"couldn't find port: {target.port}", _known_ports(container))
        elif isinstance(target.port, int) and specification and probe.http_get and number != specification.spec.http_port:
            yield Problem(f"{where}, {field}", f"it asks port {number}, and http_port in {specification.place} is "
                          f"{specification.spec.http_port}: nothing will answer", "make the two equal")


def _check_master_port(container: Container, where: str) -> Iterator[Problem]:
    declared = port_number(container, RENDEZVOUS)
    for variable in container.env:
        if variable.name in MASTER_PORTS and variable.value.isdecimal() and declared not in (None, int(variable.value)):
            message = f"it is {variable.value}, and container port {RENDEZVOUS} is {declared}"
            yield Problem(f"{where}, env {variable.name}", message, "make the two equal")


def _check_specification(container: Container, specification: Specification, where: str) -> Iterator[Problem]:
    meeting, http_port = specification.meeting, specification.spec.http_port
    wanted = {
        RENDEZVOUS: (meeting.port, "world.rendezvous.port"),
        "control": (meeting.control_port, "world.control_port"),
        "http": (http_port, "http_port"),
    }
    declared = {port.container_port for port in container.ports}
    for name, (number, key) in wanted.items():
        found = port_number(container, name)
        if found is not None and found != number:
            yield Problem(f"{where}, port {name}", f"containerPort is {found}, and {key} in {specification.place} is {number}",
                          "make the two equal")
        elif found is None and number not in declared:
            message = f"{key} in {specification.place} is {number}, and the container declares no such port"
            yield Problem(f"{where}, ports", message, f"add a container port {name}: {number}")


def check_addresses(objects: Objects, first_address: str) -> Iterator[Problem]:
    """Whether each pod can have its loopback address, and its declared ports there are free."""
    job = objects.job
    for index in range(job.completions):
        address = pod_address(first_address, index)
        for port in dict.fromkeys([0, *(one.container_port for container in job.pod.containers for one in container.ports)]):
            if problem := _try_to_bind(address, port):
                yield Problem(f"this machine, address {address} of pod {index}", *problem)
                break


def _try_to_bind(address: str, port: int) -> tuple[str, str] | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return "it is no address of this machine", f"on macOS give it one: sudo ifconfig lo0 alias {address}"
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is in use", "end the process that listens there; it may be another rehearsal"
            return f"port {port} cannot be used: {error.strerror}", "free the address"
    return None


def _known_ports(container: Container) -> str:
    names = ", ".join(f"{port.name or 'unnamed'} {port.container_port}" for port in container.ports)
    return f"container {container.name} has {names or 'no ports'}"
