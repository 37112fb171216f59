"""Rules on the programs by which a command starts its ranks: what their options say, against the plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.program.command import Line, lines_of_ranks, scripts_of, torchrun_at, words_of
from trainwright.run import CommandWorkload, ScriptWorkload


class Fact(Enum):
    """What an option of a launcher states; its value is the field that decides it."""

    NODES = "to change it, change topology.nodes"
    EACH = "to change it, change topology"
    RANKS = "to change the number of ranks, change topology"
    ADDRESS = "the plan names rank 0"
    PORT = "the plan decides ports"
    ENDPOINT = "the plan says where ranks meet"
    INDEX = "the pod's index"


_STATED = {
    "NNODES": Fact.NODES, "NPROC_PER_NODE": Fact.EACH, "MASTER_ADDR": Fact.ADDRESS, "MASTER_PORT": Fact.PORT,
    "NODE_RANK": Fact.INDEX,
}  # fmt: skip
VARIABLES: Mapping[str, Fact] = {
    **_STATED, **{f"PET_{name}": fact for name, fact in _STATED.items()}, "WORLD_SIZE": Fact.RANKS,
    "JOB_COMPLETION_INDEX": Fact.INDEX, "VC_TASK_INDEX": Fact.INDEX,
}  # fmt: skip
"""What a variable of a pod holds."""


class Launcher(NamedTuple):
    """A program that starts the ranks of one pod."""

    says: Mapping[str, Fact]
    flags: frozenset[str]
    reads_plan: bool = False
    """Whether it reads the plan's ``PET_`` variables, so that it needs none of these options."""
    across: str = ""
    """What to write so that it starts the ranks of all pods, with ``{ranks}`` and ``{each}`` of the plan."""
    needs: tuple[str, ...] = ()
    """Options whose default is right in one pod only, or nowhere."""
    subcommand: str | None = None
    elsewhere: tuple[str, ...] = ()
    """Options without which it starts ranks in its own pod only."""
    configured: Mapping[str, str] = {}
    """Of a launcher that reads ``--config-file``: keys of that file with their defaults, for options that are not given."""
    hosts: tuple[str, ...] = ()
    """Options that name a file with a line as ``HOST slots=N`` for each pod."""
    chooses_hosts: frozenset[str] = frozenset()
    """Options that take some of the hosts in that file."""
    without_ssh: str | None = None
    """Option without which it starts the ranks of all hosts in that file itself, by ssh."""


_MODULE = frozenset({"-m", "--module", "--no-python"})

LAUNCHERS = {
    "torchrun": Launcher(
        {
            "--nnodes": Fact.NODES, "--nproc-per-node": Fact.EACH, "--node-rank": Fact.INDEX,
            "--master-addr": Fact.ADDRESS, "--master-port": Fact.PORT, "--rdzv-endpoint": Fact.ENDPOINT,
        },
        _MODULE | {"--standalone", "--run-path", "--use-env"},
        reads_plan=True,
    ),
    "accelerate": Launcher(
        {
            "--num-machines": Fact.NODES, "--num-processes": Fact.RANKS, "--machine-rank": Fact.INDEX,
            "--main-process-ip": Fact.ADDRESS, "--main-process-port": Fact.PORT,
        },
        _MODULE | {
            "-q", "--quiet", "--cpu", "--multi-gpu", "--tpu", "--use-deepspeed", "--use-fsdp", "--use-megatron-lm",
            "--same-network", "--debug",
        },
        across="--num_machines $(NNODES) --num_processes {ranks} --machine_rank $(NODE_RANK) --main_process_ip $(MASTER_ADDR) "
        "--main_process_port $(MASTER_PORT)",
        needs=("--machine-rank", "--main-process-ip"),
        subcommand="launch",
        elsewhere=("--num-machines", "--config-file"),
        configured={
            "num_machines": "1", "num_processes": "", "machine_rank": "0", "main_process_ip": "", "main_process_port": "",
        },
    ),
    "composer": Launcher(
        {
            "-n": Fact.EACH, "--nproc": Fact.EACH, "--world-size": Fact.RANKS, "--node-rank": Fact.INDEX,
            "--base-rank": Fact.INDEX, "--master-addr": Fact.ADDRESS, "--master-port": Fact.PORT,
        },
        frozenset({"-v", "--verbose", "-m", "--module-mode", "-c", "--command-mode"}),
        across="-n {each} --world_size {ranks}, and it reads NODE_RANK, MASTER_ADDR and MASTER_PORT by itself",
        elsewhere=("--world-size", "--node-rank", "--base-rank"),
    ),
    "deepspeed": Launcher(
        {
            "--num-nodes": Fact.NODES, "--num-gpus": Fact.EACH, "--num-accelerators": Fact.EACH,
            "--node-rank": Fact.INDEX, "--master-addr": Fact.ADDRESS, "--master-port": Fact.PORT,
        },
        _MODULE | {
            "--no-ssh", "--no-ssh-check", "--force-multi", "--no-local-rank", "--save-pid", "--bind-cores-to-rank",
            "--elastic-training",
        },
        across="--no_ssh --hostfile /etc/deepspeed/hosts --num_gpus $(NPROC_PER_NODE) --node_rank $(NODE_RANK) "
        "--master_addr $(MASTER_ADDR) --master_port $(MASTER_PORT), and under files that host file, with a line as "
        "`node-0 slots={each}` for each pod",
        needs=("--node-rank",),
        elsewhere=("--hostfile", "-H"),
        hosts=("--hostfile", "-H"),
        chooses_hosts=frozenset({"--include", "-i", "--exclude", "-e", "--num-nodes"}),
        without_ssh="--no-ssh",
    ),
}  # fmt: skip
"""torch/distributed/run.py; accelerate, src/accelerate/commands/launch.py, commands/config/config_args.py and utils/launch.py;
composer, composer/cli/launcher.py; deepspeed, deepspeed/launcher/runner.py. With dashes for underscores: the last three know the
latter."""

_OTHER_NAMES = {
    "accelerate-launch": "accelerate", "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed", "composer.cli.launcher": "composer",
}  # fmt: skip
"""Programs, and modules for ``python -m``, that take the options of a launcher without its subcommand."""
INDEX_VARIABLE = "PET_NODE_RANK"
_PYTHON = re.compile(r"python[0-9.]*")
_STARTS_RANKS = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "srun", "ray"})


def starts_ranks_elsewhere(words: Sequence[str]) -> bool:
    """Whether a command names a program that starts ranks by means of its own, such as mpirun or srun."""
    return not _STARTS_RANKS.isdisjoint(word.rpartition("/")[2] for word in words)


def launcher_in(words: Sequence[str]) -> tuple[str, int] | None:
    """The first launcher of a command, and where its options begin; None where there is none."""
    start = torchrun_at(words)
    if start is not None:
        return "torchrun", start + 1
    for index, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in _OTHER_NAMES:
            return _OTHER_NAMES[name], index + 1
        if name in LAUNCHERS:
            subcommand = LAUNCHERS[name].subcommand
            return name, index + (2 if subcommand and words[index + 1 : index + 2] == [subcommand] else 1)
    return None


def options_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Options of a launcher win over the variables of the plan; one that differs makes ranks wait forever, or train alone."""
    for pointer, launched in launched_for_torch(context, resolution):
        yield from _options_against_plan(resolution, launched, context.locate.run(pointer))


class Launched(NamedTuple):
    """A launcher in a command, with its own options."""

    name: str
    options: Mapping[str, str | None]
    in_shell: bool

    @property
    def launcher(self) -> Launcher:
        return LAUNCHERS[self.name]


def launched_by(line: Line) -> Launched | None:
    """The first launcher of a command; None where there is none."""
    words = words_of(line.words)
    found_in = launcher_in(words)
    if found_in is None:
        return None
    name, start = found_in
    outside = [word for number, word in enumerate(line.words) if not line.in_shell(number)]
    return Launched(name, _options(words[start:], LAUNCHERS[name]), launcher_in(words_of(outside)) is None)


def launched_for_torch(context: Context, resolution: Resolution) -> Iterator[tuple[str, Launched]]:
    """Commands whose launcher starts ranks that meet as torch's do, and scripts among the run's files that they start, with the
    place of each.
    """
    torch = resolution.needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not torch or isinstance(context.run.workload, ScriptWorkload):
        return
    for line in lines_of_ranks(context, resolution):
        for pointer, one in ((line.pointer, line), *scripts_of(context, line)):
            if launched := launched_by(one):
                yield pointer, launched


def _options_against_plan(resolution: Resolution, launched: Launched, where: Where) -> Iterator[Finding]:
    name, launcher, options = launched.name, launched.launcher, launched.options
    wanted = planned(resolution, by_sizes=launcher.reads_plan)
    for option, fact in launcher.says.items():
        given = options.get(option)
        if given is None or (fact is Fact.ENDPOINT and options.get("--rdzv-backend", "static") not in _MEET_AT_RANK_0):
            continue
        option = _as_written(option)
        if not launched.in_shell and (match := IN_A_SHELL.search(given)):
            message = f"{option} is given the text {given[:80]}: no shell reads this command, and Kubernetes expands only $(NAME)"
            yield found("TW411", where, message, _without_a_shell(launched, fact, match))
            continue
        if "$" in given:
            yield from _reference(name, option, fact, given, resolution, where)
            continue
        if fact is Fact.INDEX and resolution.plan.world.nodes > 1:
            fix = f"remove it: {name} reads {INDEX_VARIABLE}" if launcher.reads_plan else f"write $({INDEX_VARIABLE})"
            yield found("TW411", where, f"{option} is the same number in every pod", _index_fix(fix, option, resolution))
        elif launcher.reads_plan and fact is Fact.EACH and given in _EACH_GPU and resolution.plan.world.gpus_per_node:
            continue
        elif fact in wanted and given != wanted[fact] and not means_the_same(fact, given, resolution):
            message = f"{option} {given[:80]} contradicts the plan, which has {wanted[fact]}"
            yield found("TW411", where, message, _fix(name, fact, wanted[fact]))
    if "--standalone" in options and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "with --standalone each pod would train alone", "remove it, or set topology.nodes to 1")


IN_A_SHELL = re.compile(r"(?<!\$)\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)|\(\()")
"""What a shell replaces, and Kubernetes leaves as it is."""


def _without_a_shell(launched: Launched, fact: Fact, match: re.Match[str]) -> str:
    if launched.launcher.reads_plan:
        return f"remove it: {launched.name} reads PET_ variables; {fact.value}"
    name = match[1] or match[2]
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


_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")


def _reference(name: str, option: str, fact: Fact, given: str, resolution: Resolution, where: Where) -> Iterator[Finding]:
    """An option whose value is one variable: it has to be one that holds what the option says."""
    match = _REFERENCE.fullmatch(given.strip("\"'"))
    holds = VARIABLES.get(next(filter(None, match.groups()))) if match else None
    wanted = planned(resolution, by_sizes=False)
    if holds is None or holds is fact or (holds in wanted and wanted[holds] == wanted.get(fact)):
        return
    message = f"{option} is {given}, which holds {_HOLDS[holds]}, and not {_HOLDS[fact]}"
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
    return f"write --node_rank $({INDEX_VARIABLE}) instead" if option == "--base_rank" and each > 1 else fix


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


def _options(words: Sequence[str], launcher: Launcher) -> dict[str, str | None]:
    """Options of the launcher itself, without those of the program that it starts. What is not known to be a flag has a value,
    unless that looks like the program or another option.
    """
    options: dict[str, str | None] = {}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        follows = words[index + 1] if index + 1 < len(words) else None
        if words[index] in launcher.flags or (follows is not None and (follows.startswith("--") or follows.endswith(".py"))):
            options[words[index]] = None
            index += 1
        else:
            options[words[index]] = follows
            index += 2
    return options


def starts_the_ranks(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command is the whole pod: one that starts no ranks leaves it at one process, which nobody told who it is."""
    work, needs = context.run.workload, resolution.needs
    torch = needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not isinstance(work, CommandWorkload) or not torch or needs.world_size == 1:
        return
    for line in lines_of_ranks(context, resolution):
        yield from _line_starts_the_ranks(context, resolution, line)


def _line_starts_the_ranks(context: Context, resolution: Resolution, line: Line) -> Iterator[Finding]:
    words = words_of(line.words)
    launched = launcher_in(words)
    if (launched and launched[0] == "torchrun") or starts_ranks_elsewhere(words):
        return
    where, fix = context.locate.run(line.pointer), "write torchrun before the program: it reads the plan's PET_ variables"
    if launched is not None:
        name = launched[0]
        if resolution.needs.nodes > 1:
            yield from _across(name, words, resolution, where)
    elif any(_PYTHON.fullmatch(word.rpartition("/")[2]) for word in words) and not _reads_its_index(context, resolution, line):
        alone = _alone(resolution)
        if alone:
            script = "workload script, which starts one process per rank, with trainwright-trainer in the image"
            yield found("TW450", where, alone, f"{fix}; or use {script}")


def _across(name: str, words: Sequence[str], resolution: Resolution, where: Where) -> Iterator[Finding]:
    """A launcher that is not told of the other pods, or not which one its own is."""
    launcher, needs = LAUNCHERS[name], resolution.needs
    write = launcher.across.format(ranks=needs.world_size, each=needs.processes_per_node)
    if needs.elastic:  # whose nodes have no numbers, so that only torchrun finds its place
        write = _TORCHRUN
    if not any(option in words for option in launcher.elsewhere):
        message = f"{name} starts ranks in its own pod only, and the run has {needs.nodes} pods: each would train alone"
        yield found("TW450", where, message, f"write {'; or '.join(dict.fromkeys([write, _TORCHRUN]))}")
        return
    if launcher.without_ssh and launcher.without_ssh not in words:
        option = _as_written(launcher.without_ssh)
        message = f"without {option} {name} of each pod starts the ranks of all hosts by ssh, and no pod listens for it"
        yield found("TW450", where, message, f"write {write}")
        return
    missing = [] if "--config-file" in words else [option for option in launcher.needs if option not in words]
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
    names = {INDEX_VARIABLE, "NODE_RANK", resolution.binding.node_index_env, *resolution.binding.renders} - {None, "RANK"}
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
