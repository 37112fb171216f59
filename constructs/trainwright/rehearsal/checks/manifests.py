"""Every problem of manifests that can be found before a process runs: objects, names, commands and ports."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.rehearsal.checks.agreements import check_agreements
from trainwright.rehearsal.checks.meeting import check_meeting
from trainwright.rehearsal.checks.probes import check_probes, known_ports
from trainwright.rehearsal.checks.programs import check_programs
from trainwright.rehearsal.networks.dns import ClusterDns, Unresolvable
from trainwright.rehearsal.networks.network import Loopback
from trainwright.rehearsal.setting import Options
from trainwright.rehearsal.stated.environment import Environment, command_line, container_environment
from trainwright.rehearsal.stated.kinds import Container
from trainwright.rehearsal.stated.objects import Blocker, Objects, Specification
from trainwright.rehearsal.stated.pod import Pod, create_pod
from trainwright.rehearsal.stated.volumes import check_volumes, rendered_files
from trainwright_trainer.contract import Script
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.spec import MPIRendezvous
from trainwright_trainer.contract.spec_file import parse_specification

HOST_ENDINGS = ("ADDR", "ADDRESS", "HOST", "ENDPOINT")
"""Endings of the names of variables whose whole value is a host, with or without a port."""
MASTER_PORTS = ("MASTER_PORT", "PET_MASTER_PORT")
"""Variables from which torch and torchrun take the port of the rendezvous."""
RENDEZVOUS = "rendezvous"
"""Name of the container port where the ranks meet."""


def check_objects(objects: Objects, specification: Specification | None, options: Options) -> Iterator[Blocker]:
    """Missing objects and keys, names that do not resolve, ports that differ, commands that this machine does not have."""
    network = Loopback()
    dns = ClusterDns(objects, network)
    for slot in objects.first_of_roles:
        pod = create_pod(slot, network.address(slot.number))
        yield from check_volumes(slot.spec, pod, objects, objects.place(slot))
        for container in slot.spec.all_containers:
            where = objects.place(slot, container)
            environment = container_environment(container, pod, objects, options.environment, where)
            yield from environment.problems
            yield from _check_command(container, environment, specification, options, where)
            yield from _check_names(container, environment, dns, where)
            yield from _check_mounted_file(objects, container, environment, pod, where)
    for config_map in objects.config_maps.values():
        for key, text in config_map.data.items():
            if specification is None or (config_map.metadata.name, key) != (specification.config_map, specification.key):
                for wrong in dict.fromkeys(dns.unresolvable(text)):
                    yield _unresolvable(f"ConfigMap {config_map.metadata.name}, {key}", wrong)
    if specification is not None and specification.supervises:
        yield from _check_world(objects, specification, dns)
    yield from check_ports(objects, specification)
    yield from check_agreements(objects, specification)
    yield from check_meeting(objects, dns)


def _check_command(
    container: Container, environment: Environment, specification: Specification | None, options: Options, where: str
) -> Iterator[Blocker]:
    if not container.command:
        yield Blocker(where, "it runs the image's own entrypoint, which is not known here", "write its command")
        return
    work = specification.spec.work if specification and SPEC_ENV in environment.values else None
    program = work.command if isinstance(work, Script) else ()
    yield from check_programs(container, command_line(container, environment.values), environment.values, program, options, where)


def _check_names(container: Container, environment: Environment, dns: ClusterDns, where: str) -> Iterator[Blocker]:
    texts = {f"env {name}": value for name, value in environment.values.items()}
    texts["command"] = "\n".join(command_line(container, environment.values))
    for field, text in texts.items():
        for wrong in dict.fromkeys(dns.unresolvable(text)):
            yield _unresolvable(f"{where}, {field}", wrong)
    for name, value in environment.values.items():
        host = value.partition(":")[0]
        if name.endswith(HOST_ENDINGS) and dns.is_bare_host_name(host) and isinstance(found := dns.find(host), Unresolvable):
            yield _unresolvable(f"{where}, env {name}", found)


def _check_mounted_file(
    objects: Objects, container: Container, environment: Environment, pod: Pod, where: str
) -> Iterator[Blocker]:
    """A specification that the supervisor would not find in a mounted ConfigMap, or would refuse."""
    path = environment.values.get(SPEC_ENV)
    if path is None:
        return
    volumes = pod.spec.volumes_by_name
    for mount in container.volume_mounts:
        volume = volumes.get(mount.name)
        inside = path.removeprefix(f"{mount.mount_path.rstrip('/')}/")
        if inside == path or volume is None or volume.config_map is None:
            continue
        files, problems = rendered_files(volume, pod, objects, where)
        if not problems and inside not in files:
            yield Blocker(f"{where}, env {SPEC_ENV}", f"{path} would be missing: ConfigMap {volume.config_map.name}, mounted at "
                          f"{mount.mount_path}, has no key {inside}", f"its keys are {', '.join(files) or 'none'}")
        elif not problems:
            try:
                parse_specification(files[inside].text.encode(), inside)
            except PodError as error:
                yield Blocker(f"ConfigMap {volume.config_map.name}", f"the trainer would refuse it, {error}",
                              "correct the key, or render the run again: trainwright synth")
        return
    yield Blocker(f"{where}, env {SPEC_ENV}", f"no ConfigMap is mounted in a folder above {path}", "mount the run's ConfigMap")


def _check_world(objects: Objects, specification: Specification, dns: ClusterDns) -> Iterator[Blocker]:
    """Pods that read the specification, but for a launcher, are the world's nodes; the first is where the others meet."""
    world, meeting = specification.spec.world, specification.meeting
    nodes = [slot for slot in objects.slots if slot.reads_specification]
    if not isinstance(world.rendezvous, MPIRendezvous) and world.nodes != len(nodes):
        message = f"{len(nodes)} of its pods read {specification.where}, where world.nodes is {world.nodes}"
        yield Blocker(objects.where, message, "make the two equal")
    if any(slot.later for slot in nodes) and world.nodes > 1:
        at_once = sum(not slot.later for slot in nodes)
        yield Blocker(objects.where, f"{at_once} of its pods run at once, and {world.nodes} pods wait for each other",
                      f"write parallelism: {world.nodes}")
    host = meeting.host if meeting else getattr(world.rendezvous, "host", None)
    if host is None or not nodes:
        return
    found = dns.find(host)
    if isinstance(found, Unresolvable):
        yield _unresolvable(f"{specification.where}, world.rendezvous.host", found)
    elif meeting is None:
        return
    elif found is not nodes[0]:
        yield Blocker(f"{specification.where}, world.rendezvous.host", f"{meeting.host} is not pod 0, where rank 0 listens",
                      f"write the name of pod {nodes[0].host_name}")


def _unresolvable(where: str, found: Unresolvable) -> Blocker:
    return Blocker(where, f"{found.name} would not resolve: {found.reason}", found.fix)


def check_ports(objects: Objects, specification: Specification | None) -> Iterator[Blocker]:
    """Every disagreement about a port that the manifests show."""
    containers = [container for slot in objects.slots for container in slot.spec.all_containers]
    for slot in objects.first_of_roles:
        for container in slot.spec.all_containers:
            where = objects.place(slot, container)
            yield from check_probes(slot, container, specification, where)
            yield from _check_master_port(container, where)
    for service in objects.services.values():
        for port in service.spec.ports:
            target = port.target_port
            if isinstance(target, str) and all(container.port_number(target) is None for container in containers):
                yield Blocker(f"Service {service.metadata.name}, port {port.name or port.port}",
                              f"targetPort {target} names no container port", known_ports(containers[0]))
    if specification is not None and specification.supervises:
        for slot in objects.first_of_roles:
            if slot.reads_specification:
                yield from _check_specification(slot.spec.main, specification, objects.place(slot, slot.spec.main))


def _check_master_port(container: Container, where: str) -> Iterator[Blocker]:
    declared = container.port_number(RENDEZVOUS)
    for variable in container.env:
        if variable.name in MASTER_PORTS and variable.value.isdecimal() and declared not in (None, int(variable.value)):
            message = f"it is {variable.value}, and container port {RENDEZVOUS} is {declared}"
            yield Blocker(f"{where}, env {variable.name}", message, "make the two equal")


def _check_specification(container: Container, specification: Specification, where: str) -> Iterator[Blocker]:
    meeting, wanted = specification.meeting, {"http": (specification.spec.http_port, "http_port")}
    if meeting is not None:
        wanted |= {
            RENDEZVOUS: (meeting.port, "world.rendezvous.port"), "control": (meeting.control_port, "world.control_port"),
        }
    declared = {port.container_port for port in container.ports}
    for name, (number, key) in wanted.items():
        found = container.port_number(name)
        if found is not None and found != number:
            yield Blocker(f"{where}, port {name}", f"containerPort is {found}, and {key} in {specification.where} is {number}",
                          "make the two equal")
        elif found is None and number not in declared:
            message = f"{key} in {specification.where} is {number}, and the container declares no such port"
            yield Blocker(f"{where}, ports", message, f"add containerPort {number} with the name {name}")
