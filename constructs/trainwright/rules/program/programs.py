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
from trainwright.program import RULES, TOGETHER
from trainwright.program.container import Program
from trainwright.rules.program.command import Line, line_in, stated_lines


def _program(context: Context, resolution: Resolution, pod: RunPod, role: Role) -> Program:
    """What the run states for its pods, else what they run; the command of a script is one that the supervisor starts."""
    process, container = resolution.processes[role.name], pod.found.spec["containers"][0]
    by_ray = resolution.needs.rendezvous is Rendezvous.RAY_HEAD
    line = line_in(context, resolution, role) or Line(tuple(container.get("command") or ()), tuple(container.get("args") or ()))
    return Program(
        read(line.words),
        container,
        pod.found.spec,
        partial(_where, context, pod, line),
        {path: text for path, text in context.run.files.items() if isinstance(text, str)},
        hosts=frozenset(_hosts(resolution)),
        gpus=0 if role.further else resolution.needs.gpus_per_node,
        ranks=0 if role.further else resolution.needs.processes_per_node,
        judged=True,
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
    """Each of the rules, of each container whose command the run states."""
    roles = {role.name: role for role in resolution.binding.roles}
    works = [(pod, roles[pod.role]) for pod in pods if pod.role in roles]
    if not any(line.words for line in stated_lines(context)):
        return
    programs = {role.name: _program(context, resolution, pod, role) for pod, role in works}
    for _, role in works:
        line = line_in(context, resolution, role)
        if line is not None and line.words:
            yield from (finding for rule in RULES for finding in rule(programs[role.name]))
    yield from (finding for rule in TOGETHER for finding in rule([*programs.values()]))


PODS = (of_containers,)
