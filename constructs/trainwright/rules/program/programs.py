"""The rules on programs (``program/``), asked of the containers that work in the finished pods of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainwright.command.reading import read
from trainwright.findings import Finding, Where
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous, Role
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.program import RULES
from trainwright.program.container import Program
from trainwright.rules.program.command import Line, line_in


def programs(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Program]:
    """What the run states for its pods; the command of a script is one that the supervisor starts."""
    roles = {role.name: role for role in resolution.binding.roles}
    for pod in pods:
        role = roles.get(pod.role or "")
        line = line_in(context, resolution, role) if role else None
        if role is not None and line is not None and line.words:
            yield _program(context, resolution, pod, role, line)


def _program(context: Context, resolution: Resolution, pod: RunPod, role: Role, line: Line) -> Program:
    process = resolution.processes[role.name]
    by_ray = resolution.needs.rendezvous is Rendezvous.RAY_HEAD
    return Program(
        read(line.words),
        pod.found.spec["containers"][0],
        pod.found.spec,
        partial(_where, context, pod, line),
        {path: text for path, text in context.run.files.items() if isinstance(text, str)},
        hosts=frozenset(_hosts(resolution)),
        process_1=not process.supervised and not resolution.binding.replaces_command and not by_ray,
    )


def _hosts(resolution: Resolution) -> Iterator[str]:
    for role in resolution.binding.roles:
        yield from (role.host.format(name=resolution.plan.name, index=index) for index in range(role.pods))


def _where(context: Context, pod: RunPod, line: Line, place: str) -> Where:
    if place.startswith("/files/"):
        return context.locate.run(place)
    if place in ("/command", "/args"):
        return context.locate.run(line.pointer)
    return pod.where(context.locate, f"/containers/0{place}")


def of_containers(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Each of the rules, of each container."""
    for program in programs(context, resolution, pods):
        for rule in RULES:
            yield from rule(program)


PODS = (of_containers,)
