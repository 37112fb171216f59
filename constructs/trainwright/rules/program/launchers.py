"""Rules on the programs by which a command starts its ranks: what their options say, against the plan."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.command.launchers import TORCH_LAUNCHERS, Fact, Launch, launches, torch_launches
from trainwright.command.model import Command
from trainwright.command.names import PYTHON
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.program.launching import World, as_written, options_against
from trainwright.program.told import MEETING
from trainwright.rendezvous import torch
from trainwright.rules.program.command import Line, lines_of_ranks, scripts_of
from trainwright.rules.program.environment import stated_for_ranks
from trainwright.run import CommandWorkload, ScriptWorkload


def options_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Options of a launcher win over the variables of the plan; one that differs makes ranks wait forever, or train alone."""
    stated = {one.name: one.value for one in resolution.plan.environment if not one.field and isinstance(one.value, str)}
    for pointer, command, launched in launched_for_torch(context, resolution):
        own = {name for name, _ in command.sets()}
        env = {name: value for name, value in stated.items() if name not in own}
        yield from options_against(world_of(resolution), launched, context.locate.run(pointer), env)


def world_of(resolution: Resolution) -> World:
    """The pods of a plan."""
    plan, elastic = resolution.plan, resolution.needs.elastic
    wanted = {
        Fact.EACH: plan.world.processes_per_node, Fact.ENDPOINT: f"{plan.rendezvous.host}:{plan.rendezvous.port}",
        Fact.NODES: plan.world.nodes, Fact.RANKS: plan.world.size, Fact.ADDRESS: plan.rendezvous.host,
        Fact.PORT: plan.rendezvous.port,
    }  # fmt: skip
    if elastic:
        wanted = {fact: wanted[fact] for fact in (Fact.EACH, Fact.ENDPOINT)}
    return World(
        "the plan", plan.world.nodes, {fact: (str(value),) for fact, value in wanted.items()}, plan.world.nodes,
        plan.world.processes_per_node, plan.world.gpus_per_node, f"{elastic.minimum}:{elastic.maximum}" if elastic else "",
    )  # fmt: skip


def launched_for_torch(context: Context, resolution: Resolution) -> Iterator[tuple[str, Command, Launch]]:
    """Commands whose launcher starts ranks that meet as torch's do, and scripts among the run's files that they start, with the
    place and the text of each.
    """
    by_torch = resolution.needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not by_torch or isinstance(context.run.workload, ScriptWorkload):
        return
    for line in lines_of_ranks(context, resolution):
        for pointer, command in ((line.pointer, line.read), *scripts_of(context, line.read)):
            yield from ((pointer, command, launch) for launch in torch_launches(command))


def starts_the_ranks(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command is the whole pod: one that starts no ranks leaves it at one process, which nobody told who it is."""
    work, needs = context.run.workload, resolution.needs
    by_torch = needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not isinstance(work, CommandWorkload) or not by_torch or needs.world_size == 1:
        return
    for line in lines_of_ranks(context, resolution):
        yield from _line_starts_the_ranks(context, resolution, line)


def _line_starts_the_ranks(context: Context, resolution: Resolution, line: Line) -> Iterator[Finding]:
    launched, others = torch_launches(line.read), [launch for launch in launches(line.read) if launch.name not in TORCH_LAUNCHERS]
    if others or any(launch.launcher.reads_plan for launch in launched):
        return
    where, fix = context.locate.run(line.pointer), "write torchrun before the program: it reads the plan's PET_ variables"
    if launched:
        if resolution.needs.nodes > 1:
            yield from _across(launched[-1], resolution, where)
    elif any(PYTHON.fullmatch(word.base) for word in line.read.words()) and not _reads_its_index(context, resolution, line):
        if _is_told_its_rank(context, resolution):
            if not MEETING.issubset(variable.name for variable in resolution.plan.environment):
                write = "write `launcher_variables: true` in `workload`, for MASTER_ADDR and MASTER_PORT"
                yield found("TW450", where, "the program is told its rank, and nothing tells it where rank 0 listens", write)
        elif alone := _alone(resolution):
            script = "workload script, which starts one process per rank, with trainwright-trainer in the image"
            yield found("TW450", where, alone, f"{fix}; or use {script}")


def _across(launch: Launch, resolution: Resolution, where: Where) -> Iterator[Finding]:
    """A launcher that is not told of the other pods, or not which one its own is."""
    name, launcher, needs, options = launch.name, launch.launcher, resolution.needs, launch.names
    if launch.is_open:
        return
    write = launcher.across.format(ranks=needs.world_size, each=needs.processes_per_node)
    if needs.elastic:  # whose nodes have no numbers, so that only torchrun finds its place
        write = _TORCHRUN
    if options.isdisjoint(launcher.elsewhere):
        message = f"{name} starts ranks in its own pod only, and the run has {needs.nodes} pods: each would train alone"
        yield found("TW450", where, message, f"write {'; or '.join(dict.fromkeys([write, _TORCHRUN]))}")
        return
    if launcher.without_ssh and launcher.without_ssh not in options:
        option = as_written(launcher.without_ssh)
        message = f"without {option} {name} of each pod starts the ranks of all hosts by ssh, and no pod listens for it"
        yield found("TW450", where, message, f"write {write}")
        return
    missing = [] if "--config-file" in options else [option for option in launcher.needs if option not in options]
    if missing:
        lacking = " and ".join(map(as_written, missing))
        message = f"without {lacking} {name} cannot tell which of {needs.nodes} pods it is in: the ranks would not meet"
        yield found("TW450", where, message, f"write {write}")


_TORCHRUN = "torchrun in its place, which reads the plan's PET_ variables"


def _reads_its_index(context: Context, resolution: Resolution, line: Line) -> bool:
    """Whether the command, or a file of the run that it names, reads the pod's index: then it numbers the ranks by itself."""
    command = " ".join(line.words)
    texts = [command, *(text for path, text in context.run.files.items() if path in command and isinstance(text, str))]
    if isinstance(context.run.workload, CommandWorkload) and context.run.workload.launcher_variables:
        return True
    names = {torch.INDEX, "NODE_RANK", resolution.binding.node_index_env, *resolution.binding.renders} - {None, "RANK"}
    return any(str(name) in text for text in texts for name in names)


def _is_told_its_rank(context: Context, resolution: Resolution) -> bool:
    """Whether the run itself tells each pod which rank its only one is."""
    stated = {name for each in stated_for_ranks(context, resolution) for name in each.env}
    return resolution.needs.processes_per_node == 1 and {"RANK", "WORLD_SIZE"} <= stated


def _alone(resolution: Resolution) -> str | None:
    """What a plain program would do; None if the operator tells each pod its rank and each pod holds one."""
    needs, told = resolution.needs, {"RANK", "WORLD_SIZE"} <= resolution.binding.injects.keys()
    if needs.processes_per_node == 1:
        return None if told else f"nothing tells the program its rank: each of {needs.nodes} pods would train alone"
    missing = needs.world_size - needs.nodes
    if told:
        seen = f"the program sees WORLD_SIZE {needs.world_size} and takes its pod's number for its rank"
        return f"{seen}: it would wait for {missing} ranks that never start"
    where = f" in each of {needs.nodes} pods" if needs.nodes > 1 else ""
    return f"the program is one process{where}: {missing} of {needs.world_size} ranks are not started"


PLAN = (options_against_plan, starts_the_ranks)
