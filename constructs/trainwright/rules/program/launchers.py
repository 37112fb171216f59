"""Rules on the programs by which a command starts its ranks: what their options say, against the plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.command.launchers import LAUNCHERS, TORCH_LAUNCHERS, Fact, Launch, launches
from trainwright.command.model import By, Word
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rendezvous import torch
from trainwright.rules.program.command import Line, lines_of_ranks, scripts_of, torch_launch
from trainwright.run import CommandWorkload, ScriptWorkload

_STATED = {
    "NNODES": Fact.NODES, "NPROC_PER_NODE": Fact.EACH, "MASTER_ADDR": Fact.ADDRESS, "MASTER_PORT": Fact.PORT,
    "NODE_RANK": Fact.INDEX,
}  # fmt: skip
VARIABLES: Mapping[str, Fact] = {
    **_STATED, **{f"PET_{name}": fact for name, fact in _STATED.items()}, "WORLD_SIZE": Fact.RANKS,
    "JOB_COMPLETION_INDEX": Fact.INDEX, "VC_TASK_INDEX": Fact.INDEX,
}  # fmt: skip
"""What a variable of a pod holds."""


def options_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Options of a launcher win over the variables of the plan; one that differs makes ranks wait forever, or train alone."""
    for pointer, launched in launched_for_torch(context, resolution):
        yield from _options_against_plan(resolution, launched, context.locate.run(pointer))


def launched_for_torch(context: Context, resolution: Resolution) -> Iterator[tuple[str, Launch]]:
    """Commands whose launcher starts ranks that meet as torch's do, and scripts among the run's files that they start, with the
    place of each.
    """
    by_torch = resolution.needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not by_torch or isinstance(context.run.workload, ScriptWorkload):
        return
    for line in lines_of_ranks(context, resolution):
        for pointer, command in ((line.pointer, line.read), *scripts_of(context, line.read)):
            if launch := torch_launch(command):
                yield pointer, launch


def _options_against_plan(resolution: Resolution, launch: Launch, where: Where) -> Iterator[Finding]:
    name, launcher, backend = launch.name, launch.launcher, launch.given("--rdzv-backend")
    wanted = planned(resolution, by_sizes=launcher.reads_plan)
    for option, fact in launcher.says.items():
        given = launch.given(option)
        if given is None or (fact is Fact.ENDPOINT and backend and backend.text not in _MEET_AT_RANK_0):
            continue
        option = _as_written(option)
        unread = next((read.name for read in given.reads if read.by is By.NOBODY), None)
        if unread is not None:
            text = given.text[:80]
            message = f"{option} is given the text {text}: no shell reads this command, and Kubernetes expands only $(NAME)"
            yield found("TW411", where, message, _without_a_shell(launch, fact, unread))
        elif given.reads or given.value is None:
            yield from _reference(name, option, fact, given, resolution, where)
        elif fact is Fact.INDEX and resolution.plan.world.nodes > 1:
            fix = f"remove it: {name} reads {torch.INDEX}" if launcher.reads_plan else f"write $({torch.INDEX})"
            yield found("TW411", where, f"{option} is the same number in every pod", _index_fix(fix, option, resolution))
        elif launcher.reads_plan and fact is Fact.EACH and given.text in _EACH_GPU and resolution.plan.world.gpus_per_node:
            continue
        elif fact in wanted and given.text != wanted[fact] and not means_the_same(fact, given.text, resolution):
            message = f"{option} {given.text[:80]} contradicts the plan, which has {wanted[fact]}"
            yield found("TW411", where, message, _fix(name, fact, wanted[fact]))
    if "--standalone" in launch.names and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "with --standalone each pod would train alone", "remove it, or set topology.nodes to 1")


def _without_a_shell(launch: Launch, fact: Fact, name: str) -> str:
    if launch.launcher.reads_plan:
        return f"remove it: {launch.name} reads PET_ variables; {fact.value}"
    return f"write $({name})" if name else "write the number; or start the command by a shell, as in [bash, -c, …]"


def _as_written(option: str) -> str:
    """With underscores, as most people write long options of these launchers."""
    return option.replace("-", "_").replace("__", "--", 1) if option.startswith("--") else option


_EACH_GPU = frozenset({"gpu", "auto"})
"""As many ranks as torchrun sees GPUs, which are those of the pod (torch/distributed/run.py, determine_local_world_size)."""
_MEET_AT_RANK_0 = frozenset({"static", "c10d"})
"""Backends of torchrun without a server of their own; etcd's endpoint is no business of the plan."""
_THIS_POD = frozenset({"localhost", "127.0.0.1", "::1"})


def means_the_same(fact: Fact, given: str, resolution: Resolution) -> bool:
    """Whether another value than the plan's does no harm: in a run of one pod nobody else looks for rank 0."""
    alone = resolution.plan.world.nodes == 1 and not resolution.needs.elastic
    host = given.rpartition(":")[0] if fact is Fact.ENDPOINT else given
    return alone and (fact is Fact.PORT or (fact in (Fact.ADDRESS, Fact.ENDPOINT) and host in _THIS_POD))


def _reference(name: str, option: str, fact: Fact, given: Word, resolution: Resolution, where: Where) -> Iterator[Finding]:
    """An option whose value is one variable: it has to be one that holds what the option says."""
    holds = VARIABLES.get(given.variable or "")
    wanted = planned(resolution, by_sizes=False)
    if holds is None or holds is fact or (holds in wanted and wanted[holds] == wanted.get(fact)):
        return
    message = f"{option} is {given.text}, which holds {_HOLDS[holds]}, and not {_HOLDS[fact]}"
    if fact is Fact.ENDPOINT:
        yield found("TW411", where, message, _fix(name, fact, ""))
        return
    right = next(variable for variable, of in VARIABLES.items() if of is fact)
    yield found("TW411", where, message, f"write {wanted[fact] if fact is Fact.RANKS and fact in wanted else f'$({right})'}")


_HOLDS = {
    Fact.NODES: "the number of pods", Fact.EACH: "the ranks of a pod", Fact.RANKS: "the ranks of all pods",
    Fact.ADDRESS: "the host of rank 0", Fact.PORT: "the port of rank 0", Fact.INDEX: "the pod's number",
    Fact.ENDPOINT: "host and port of rank 0",
}  # fmt: skip


def _fix(name: str, fact: Fact, wanted: str) -> str:
    if LAUNCHERS[name].reads_plan:
        return f"remove it: {name} reads PET_ variables; {fact.value}"
    # The name of rank 0's host changes with the identity, so the command cannot hold it.
    return f"write {'$(PET_MASTER_ADDR)' if fact is Fact.ADDRESS else wanted}; {fact.value}"


def _index_fix(fix: str, option: str, resolution: Resolution) -> str:
    each = resolution.plan.world.processes_per_node
    return f"write --node_rank $({torch.INDEX}) instead" if option == "--base_rank" and each > 1 else fix


def planned(resolution: Resolution, *, by_sizes: bool) -> dict[Fact, str]:
    """What the options would have to say; of an elastic run only torchrun can state the number of nodes, as two limits."""
    plan, elastic = resolution.plan, resolution.needs.elastic
    each = {Fact.EACH: str(plan.world.processes_per_node), Fact.ENDPOINT: f"{plan.rendezvous.host}:{plan.rendezvous.port}"}
    if elastic:
        return each | ({Fact.NODES: f"{elastic.minimum}:{elastic.maximum}"} if by_sizes else {})
    return {
        **each,
        Fact.NODES: str(plan.world.nodes),
        Fact.RANKS: str(plan.world.size),
        Fact.ADDRESS: plan.rendezvous.host,
        Fact.PORT: str(plan.rendezvous.port),
    }


def starts_the_ranks(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command is the whole pod: one that starts no ranks leaves it at one process, which nobody told who it is."""
    work, needs = context.run.workload, resolution.needs
    by_torch = needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not isinstance(work, CommandWorkload) or not by_torch or needs.world_size == 1:
        return
    for line in lines_of_ranks(context, resolution):
        yield from _line_starts_the_ranks(context, resolution, line)


def _line_starts_the_ranks(context: Context, resolution: Resolution, line: Line) -> Iterator[Finding]:
    launched, others = torch_launch(line.read), [launch for launch in launches(line.read) if launch.name not in TORCH_LAUNCHERS]
    if others or (launched and launched.name == "torchrun"):
        return
    where, fix = context.locate.run(line.pointer), "write torchrun before the program: it reads the plan's PET_ variables"
    if launched is not None:
        if resolution.needs.nodes > 1:
            yield from _across(launched, resolution, where)
    elif any(_PYTHON.fullmatch(word.base) for word in line.read.words()) and not _reads_its_index(context, resolution, line):
        alone = _alone(resolution)
        if alone:
            script = "workload script, which starts one process per rank, with trainwright-trainer in the image"
            yield found("TW450", where, alone, f"{fix}; or use {script}")


_PYTHON = re.compile(r"python[0-9.]*")


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
        option = _as_written(launcher.without_ssh)
        message = f"without {option} {name} of each pod starts the ranks of all hosts by ssh, and no pod listens for it"
        yield found("TW450", where, message, f"write {write}")
        return
    missing = [] if "--config-file" in options else [option for option in launcher.needs if option not in options]
    if missing:
        lacking = " and ".join(map(_as_written, missing))
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
