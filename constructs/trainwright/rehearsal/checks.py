"""Every problem of manifests that can be found before a process runs: objects, names, commands and ports."""

from __future__ import annotations

import errno
import re
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import distributions, requires

from trainwright.rehearsal.dns import ClusterDns, Unresolvable
from trainwright.rehearsal.environment import Environment, command_line, container_environment, find_program, search_path
from trainwright.rehearsal.kinds import Container, Job
from trainwright.rehearsal.objects import Blocker, Objects, Specification
from trainwright.rehearsal.pod import Pod, create_pod, pod_address
from trainwright.rehearsal.setting import Options
from trainwright.rehearsal.volumes import PathRewriter, check_volumes, rendered_files
from trainwright_trainer.contract.engine import EngineName
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.training import Training

HOST_ENDINGS = ("ADDR", "ADDRESS", "HOST", "ENDPOINT")
"""Endings of the names of variables whose whole value is a host, with or without a port."""
EXTRAS: dict[EngineName, tuple[str, ...]] = {
    "ddp": ("torch",), "fsdp2": ("torch",), "deepspeed": ("torch", "deepspeed"), "horovod": ("torch", "horovod"),
    "tensorflow": ("tensorflow",),
}
"""Engine -> the extras of our trainer's package that bring what it trains with."""
MOST_PODS = 200
MASTER_PORTS = ("MASTER_PORT", "PET_MASTER_PORT")
"""Variables from which torch and torchrun take the port of the rendezvous."""
RENDEZVOUS = "rendezvous"
"""Name of the container port where the ranks meet."""


def check_job(job: Job) -> Iterator[Blocker]:
    """Problems of a Job that cannot be played, or that would start nothing."""
    where, spec = f"Job {job.name}", job.spec
    if spec.completion_mode != "Indexed":
        yield Blocker(where, f"completionMode is {spec.completion_mode}", "a rehearsal plays only completionMode: Indexed")
    if not job.completions:
        stated = "not set" if spec.completions is None else spec.completions
        yield Blocker(where, f"completions is {stated}", "write the number of pods")
    if spec.suspend:
        yield Blocker(where, "it is suspended, so no pod would start", "remove suspend")
    if job.pod.restart_policy != "Never":
        yield Blocker(where, f"restartPolicy is {job.pod.restart_policy}", "a rehearsal plays only restartPolicy: Never")
    if spec.success_policy is not None:
        yield Blocker(where, "it has a successPolicy", "remove it: a rehearsal plays Jobs until every index has ended")
    if job.pod.host_network:
        yield Blocker(where, "hostNetwork: true would give every pod the machine's own address", "remove hostNetwork")
    for container in job.pod.init_containers:
        if container.restart_policy == "Always":
            yield Blocker(f"{where}, container {container.name}", "it is a sidecar", "remove it: a rehearsal plays no sidecars")


def check_size(job: Job) -> Iterator[Blocker]:
    """Whether one machine can play so many pods."""
    if job.completions > MOST_PODS:
        fix = f"rehearse at most {MOST_PODS} pods: --nodes {MOST_PODS}"
        yield Blocker(f"Job {job.name}", f"completions is {job.completions}", fix)


def check_libraries(specification: Specification | None) -> Iterator[Blocker]:
    """Whether this Python has what our trainer's ranks import."""
    work = specification.spec.work if specification else None
    extras = EXTRAS[work.engine] if isinstance(work, Training) else ()
    missing = [library for extra in extras for library in _of_extra(extra) if not list(distributions(name=library))]
    if missing:
        message = f"the ranks need {', '.join(missing)}, and {sys.prefix} does not have {'it' if len(missing) == 1 else 'them'}"
        fix = f"run: {sys.executable} -m pip install 'trainwright-trainer[{','.join(extras)}]'"
        small = "; where you need no CUDA, first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        yield Blocker("this machine", message, fix + (small if "torch" in missing else ""))


def _of_extra(extra: str) -> list[str]:
    """Distributions that an extra of our trainer's package asks for by itself."""
    lines = (line.partition(";") for line in requires("trainwright-trainer") or ())
    names = [re.match(r"[A-Za-z0-9._-]+", name) for name, _, marker in lines if re.search(rf"extra == .{extra}.$", marker)]
    return [name[0] for name in names if name]


def check_objects(objects: Objects, specification: Specification | None, options: Options) -> Iterator[Blocker]:
    """Missing objects and keys, names that do not resolve, ports that differ, commands that this machine does not have."""
    job = objects.job
    pod = create_pod(job, 0, pod_address(options.first_address, 0))
    dns = ClusterDns(objects, options.first_address)
    yield from check_volumes(job.pod, pod, objects.config_maps, f"Job {job.name}")
    for container in job.pod.all_containers:
        where = f"Job {job.name}, container {container.name}"
        environment = container_environment(container, pod, objects.config_maps, options.environment, where)
        yield from environment.problems
        yield from _check_command(container, environment, options, where)
        yield from _check_names(container, environment, dns, where)
        yield from _check_mounted_file(objects, container, environment, pod, where)
    for config_map in objects.config_maps.values():
        for key, text in config_map.data.items():
            if specification is None or (config_map.metadata.name, key) != (specification.config_map, specification.key):
                for wrong in dict.fromkeys(dns.unresolvable(text)):
                    yield _unresolvable(f"ConfigMap {config_map.metadata.name}, {key}", wrong)
    if specification is not None:
        yield from _check_world(job, specification, dns)
    yield from check_ports(objects, specification)


def _check_command(container: Container, environment: Environment, options: Options, where: str) -> Iterator[Blocker]:
    words = command_line(container, environment.values)
    if not container.command:
        yield Blocker(where, "it runs the image's own entrypoint, which is not known here", "write its command")
        return
    program = PathRewriter(options.mounts)(words[0])
    if find_program(program, search_path(environment.values, options.environment)) is None:
        yield Blocker(where, f'failed to start: exec: "{words[0]}": executable file not found in $PATH',
                      "install it into this Python's environment, or correct the command")


def _check_names(container: Container, environment: Environment, dns: ClusterDns, where: str) -> Iterator[Blocker]:
    texts = {f"env {name}": value for name, value in environment.values.items()}
    texts["command"] = "\n".join(command_line(container, environment.values))
    for field, text in texts.items():
        for wrong in dict.fromkeys(dns.unresolvable(text)):
            yield _unresolvable(f"{where}, {field}", wrong)
    for name, value in environment.values.items():
        host = value.partition(":")[0]
        found = dns.resolve(host)
        if name.endswith(HOST_ENDINGS) and dns.is_bare_host_name(host) and isinstance(found, Unresolvable):
            yield _unresolvable(f"{where}, env {name}", found)


def _check_mounted_file(
    objects: Objects, container: Container, environment: Environment, pod: Pod, where: str
) -> Iterator[Blocker]:
    """A specification whose path lies in a mounted ConfigMap that has no such key: the supervisor would not find it."""
    path = environment.values.get(SPEC_ENV)
    if path is None:
        return
    volumes = objects.job.pod.volumes_by_name
    for mount in container.volume_mounts:
        volume = volumes.get(mount.name)
        inside = path.removeprefix(f"{mount.mount_path.rstrip('/')}/")
        if inside == path or volume is None or volume.config_map is None:
            continue
        files, problems = rendered_files(volume, pod, objects.config_maps, where)
        if not problems and inside not in files:
            yield Blocker(f"{where}, env {SPEC_ENV}", f"{path} would be missing: ConfigMap {volume.config_map.name}, mounted at "
                          f"{mount.mount_path}, has no key {inside}", f"its keys are {', '.join(files) or 'none'}")
        return
    yield Blocker(f"{where}, env {SPEC_ENV}", f"no ConfigMap is mounted in a folder above {path}", "mount the run's ConfigMap")


def _check_world(job: Job, specification: Specification, dns: ClusterDns) -> Iterator[Blocker]:
    world = specification.spec.world
    if world.nodes != job.completions:
        message = f"completions is {job.completions}, and world.nodes in {specification.where} is {world.nodes}"
        yield Blocker(f"Job {job.name}", message, "make the two equal")
    if job.spec.parallelism < world.nodes:
        yield Blocker(f"Job {job.name}", f"parallelism is {job.spec.parallelism}, and {world.nodes} pods wait for each other",
                      f"write parallelism: {world.nodes}")
    host = specification.meeting.host
    found = dns.resolve(host)
    if isinstance(found, Unresolvable):
        yield _unresolvable(f"{specification.where}, world.rendezvous.host", found)
    elif found != dns.address(0):
        yield Blocker(f"{specification.where}, world.rendezvous.host", f"{host} is not pod 0, where rank 0 listens",
                      f"write the name of pod 0 of Job {job.name}")


def _unresolvable(where: str, found: Unresolvable) -> Blocker:
    return Blocker(where, f"{found.name} would not resolve: {found.reason}", found.fix)


def check_ports(objects: Objects, specification: Specification | None) -> Iterator[Blocker]:
    """Every disagreement about a port that the manifests show."""
    job = objects.job
    for container in job.pod.containers:
        where = f"Job {job.name}, container {container.name}"
        yield from _check_probes(container, specification, where)
        yield from _check_master_port(container, where)
    for service in objects.services.values():
        for port in service.spec.ports:
            target = port.target_port
            if isinstance(target, str) and all(container.port_number(target) is None for container in job.pod.containers):
                yield Blocker(f"Service {service.metadata.name}, port {port.name or port.port}",
                              f"targetPort {target} names no container port", _known_ports(job.pod.containers[0]))
    if specification is not None:
        trains = job.pod.main
        yield from _check_specification(trains, specification, f"Job {job.name}, container {trains.name}")


def _check_probes(container: Container, specification: Specification | None, where: str) -> Iterator[Blocker]:
    for field, probe in container.probes:
        target = probe.http_get or probe.tcp_socket
        if target is None:
            continue
        number = container.port_number(target.port)
        if number is None:
            yield Blocker(f"{where}, {field}", f"couldn't find port: {target.port}", _known_ports(container))
        elif isinstance(target.port, int) and specification and probe.http_get and number != specification.spec.http_port:
            yield Blocker(f"{where}, {field}", f"it probes port {number}, and http_port in {specification.where} is "
                          f"{specification.spec.http_port}: nothing would answer", "make the two equal")


def _check_master_port(container: Container, where: str) -> Iterator[Blocker]:
    declared = container.port_number(RENDEZVOUS)
    for variable in container.env:
        if variable.name in MASTER_PORTS and variable.value.isdecimal() and declared not in (None, int(variable.value)):
            message = f"it is {variable.value}, and container port {RENDEZVOUS} is {declared}"
            yield Blocker(f"{where}, env {variable.name}", message, "make the two equal")


def _check_specification(container: Container, specification: Specification, where: str) -> Iterator[Blocker]:
    meeting, http_port = specification.meeting, specification.spec.http_port
    wanted = {
        RENDEZVOUS: (meeting.port, "world.rendezvous.port"),
        "control": (meeting.control_port, "world.control_port"),
        "http": (http_port, "http_port"),
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


def check_addresses(objects: Objects, first_address: str) -> Iterator[Blocker]:
    """Whether each pod can have its loopback address, and whether its declared ports are free there."""
    job = objects.job
    for index in range(job.completions):
        address = pod_address(first_address, index)
        for port in dict.fromkeys([0, *(one.container_port for container in job.pod.containers for one in container.ports)]):
            if problem := _try_to_bind(address, port):
                yield Blocker(f"this machine, address {address} of pod {index}", *problem)
                break


def _try_to_bind(address: str, port: int) -> tuple[str, str] | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return "this machine does not have that address", f"on macOS, add it: sudo ifconfig lo0 alias {address}"
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is in use", "stop the process that listens there; it may be another rehearsal"
            return f"port {port} cannot be used: {error.strerror}", "free the address"
    return None


def _known_ports(container: Container) -> str:
    names = ", ".join(f"{port.name or 'unnamed'} {port.container_port}" for port in container.ports)
    return f"container {container.name} has {f'the ports {names}' if names else 'no ports'}"
