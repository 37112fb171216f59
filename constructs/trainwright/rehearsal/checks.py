"""Everything about manifests that shows before a process runs."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.rehearsal.command_line import command_line, find_program, search_path
from trainwright.rehearsal.dns import Names, Unresolvable
from trainwright.rehearsal.environment import Environment, container_environment
from trainwright.rehearsal.kinds import Container, Job
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.pod import Pod, create_pod, pod_address
from trainwright.rehearsal.ports import check_ports
from trainwright.rehearsal.problem import Problem
from trainwright.rehearsal.rewrite import PathRewriter
from trainwright.rehearsal.specification import Specification
from trainwright.rehearsal.volumes import check_volumes, rendered_files
from trainwright_trainer.contract.layout import SPEC_ENV

HOST_ENDINGS = ("ADDR", "ADDRESS", "HOST", "ENDPOINT")
"""Ends of variables whose whole value is a host, with or without a port."""
MOST_PODS = 200


def check_job(job: Job) -> Iterator[Problem]:
    """Kinds of Jobs that cannot be played, or that would start nothing."""
    where, spec = f"Job {job.name}", job.spec
    if spec.completion_mode != "Indexed":
        yield Problem(where, f"completionMode is {spec.completion_mode}", "a rehearsal plays completionMode: Indexed")
    if not job.completions:
        yield Problem(where, f"completions is {spec.completions}", "write how many pods there are")
    if spec.suspend:
        yield Problem(where, "it is suspended, so no pod would start", "remove suspend")
    if job.pod.restart_policy != "Never":
        yield Problem(where, f"restartPolicy is {job.pod.restart_policy}", "a rehearsal plays restartPolicy: Never")
    if spec.success_policy is not None:
        yield Problem(where, "it has a successPolicy", "a rehearsal plays Jobs that end when every index has; remove it")
    if job.pod.host_network:
        yield Problem(where, "hostNetwork: true would give every pod the machine's own address", "remove hostNetwork")
    for container in job.pod.init_containers:
        if container.restart_policy == "Always":
            yield Problem(f"{where}, container {container.name}", "it is a sidecar", "a rehearsal plays none: remove it")


def check_size(job: Job) -> Iterator[Problem]:
    """Whether one machine can play so many pods."""
    if job.completions > MOST_PODS:
        yield Problem(f"Job {job.name}", f"completions is {job.completions}", f"choose at most {MOST_PODS} pods for a rehearsal")


def check_objects(objects: Objects, specification: Specification | None, options: Options) -> Iterator[Problem]:
    """Missing objects and keys, names that do not resolve, ports that differ, commands that are not here."""
    job = objects.job
    pod = create_pod(job, 0, pod_address(options.first_address, 0))
    names = Names(objects, options.first_address)
    yield from check_volumes(job.pod, pod, objects.config_maps, f"Job {job.name}")
    for container in (*job.pod.init_containers, *job.pod.containers):
        where = f"Job {job.name}, container {container.name}"
        environment = container_environment(container, pod, objects.config_maps, options.environment, where)
        yield from environment.problems
        yield from _check_command(container, environment, options, where)
        yield from _check_names(container, environment, names, where)
        yield from _check_mounted_file(objects, container, environment, pod, where)
    for config_map in objects.config_maps.values():
        for key, text in config_map.data.items():
            if specification is None or (config_map.metadata.name, key) != (specification.config_map, specification.key):
                for wrong in _once(names.unresolvable(text)):
                    yield _unresolvable(f"ConfigMap {config_map.metadata.name}, {key}", wrong)
    if specification is not None:
        yield from _check_world(job, specification, names)
    yield from check_ports(objects, specification)


def _check_command(container: Container, environment: Environment, options: Options, where: str) -> Iterator[Problem]:
    words = command_line(container, environment.values)
    if not container.command:
        yield Problem(where, "it runs the image's own entrypoint, which is not known here", "write its command")
        return
    program = PathRewriter(options.mounts)(words[0])
    if find_program(program, search_path(environment.values, options.environment)) is None:
        yield Problem(where, f'failed to start: exec: "{words[0]}": executable file not found in $PATH',
                      "install it into this Python's environment, or correct the command")


def _check_names(container: Container, environment: Environment, names: Names, where: str) -> Iterator[Problem]:
    texts = {f"{where}, env {name}": value for name, value in environment.values.items()}
    texts[f"{where}, command"] = "\n".join(command_line(container, environment.values))
    for place, text in texts.items():
        for wrong in _once(names.unresolvable(text)):
            yield _unresolvable(place, wrong)
    for name, value in environment.values.items():
        host = value.partition(":")[0]
        found = names.resolve(host)
        if name.endswith(HOST_ENDINGS) and names.is_bare_host_name(host) and isinstance(found, Unresolvable):
            yield _unresolvable(f"{where}, env {name}", found)


def _check_mounted_file(
    objects: Objects, container: Container, environment: Environment, pod: Pod, where: str
) -> Iterator[Problem]:
    """A specification whose path lies in a mounted ConfigMap that has no such key: the supervisor would not find it."""
    path = environment.values.get(SPEC_ENV)
    if path is None:
        return
    volumes = {volume.name: volume for volume in objects.job.pod.volumes}
    for mount in container.volume_mounts:
        volume = volumes.get(mount.name)
        inside = path.removeprefix(f"{mount.mount_path.rstrip('/')}/")
        if inside == path or volume is None or volume.config_map is None:
            continue
        files, problems = rendered_files(volume, pod, objects.config_maps, where)
        if not problems and inside not in files:
            yield Problem(f"{where}, env {SPEC_ENV}", f"{path} will not be there: ConfigMap {volume.config_map.name}, mounted at "
                          f"{mount.mount_path}, has no key {inside}", f"its keys are {', '.join(files) or 'none'}")
        return
    yield Problem(f"{where}, env {SPEC_ENV}", f"no ConfigMap is mounted above {path}", "mount the run's ConfigMap")


def _check_world(job: Job, specification: Specification, names: Names) -> Iterator[Problem]:
    world = specification.spec.world
    if world.nodes != job.completions:
        message = f"completions is {job.completions}, and world.nodes in {specification.place} is {world.nodes}"
        yield Problem(f"Job {job.name}", message, "make the two equal")
    if job.spec.parallelism < world.nodes:
        yield Problem(f"Job {job.name}", f"parallelism is {job.spec.parallelism}, and {world.nodes} pods wait for each other",
                      f"write parallelism: {world.nodes}")
    host = specification.meeting.host
    found = names.resolve(host)
    if isinstance(found, Unresolvable):
        yield _unresolvable(f"{specification.place}, world.rendezvous.host", found)
    elif found != names.address(0):
        yield Problem(f"{specification.place}, world.rendezvous.host", f"{host} is not pod 0, where rank 0 listens",
                      f"name pod 0 of Job {job.name}")


def _once(found: Iterator[Unresolvable]) -> Iterator[Unresolvable]:
    yield from dict.fromkeys(found)


def _unresolvable(where: str, found: Unresolvable) -> Problem:
    return Problem(where, f"{found.name} would not resolve: {found.reason}", found.fix)
