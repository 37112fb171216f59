"""The programs that start ranks: how they are called, and which options they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from trainwright.command.model import Command, Simple, Word
from trainwright.command.names import INSTALL, ONLY_NAME


class Fact(Enum):
    """What an option of a launcher states; its value is the field that decides it."""

    NODES = "to change it, change topology.nodes"
    EACH = "to change it, change topology"
    RANKS = "to change the number of ranks, change topology"
    ADDRESS = "the plan names rank 0"
    PORT = "the plan decides ports"
    ENDPOINT = "the plan says where ranks meet"
    INDEX = "the pod's index"


class Launcher(NamedTuple):
    """A program that starts the ranks of one pod."""

    says: Mapping[str, Fact]
    flags: frozenset[str]
    """Its options without a value; what is not listed is taken for one with a value."""
    pairs: frozenset[str] = frozenset()
    """Its options with two."""
    reads_plan: bool = False
    """Whether it reads the plan's ``PET_`` variables, so that it needs none of these options."""
    across: str = ""
    """What to write so that it starts the ranks of all pods, with ``{ranks}`` and ``{each}`` of the plan."""
    needs: tuple[str, ...] = ()
    """Options whose default is right in one pod only, or nowhere."""
    subcommand: str = ""
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

    def options(self, *facts: Fact) -> list[str]:
        """Those that state one of these."""
        return [option for option, fact in self.says.items() if fact in facts]


_OPEN_MPI_FLAGS = (
    "allow-run-as-root", "oversubscribe", "nooversubscribe", "use-hwthread-cpus", "tag-output", "timestamp-output", "display-map",
    "display-allocation", "report-bindings", "verbose", "quiet",
)  # fmt: skip
"""Open MPI 4 takes them with one dash too."""
_MPI_FLAGS = frozenset({
    *(f"{dashes}{flag}" for flag in _OPEN_MPI_FLAGS for dashes in ("-", "--")),
    "-v", "-q", "-l", "-prepend-rank", "-genvall", "-genvnone", "-envall", "-envnone",
})  # fmt: skip
_MPI_PAIRS = frozenset({"--mca", "-mca", "--gmca", "-gmca", "--prtemca", "--pmixmca", "-genv", "-env"})
"""``mpirun --help`` of Open MPI 4.1.8 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18."""
_HOROVOD_FLAGS = frozenset({
    "--gloo", "--mpi", "--jsrun", "--disable-cache", "--autotune", "--no-autotune", "--hierarchical-allreduce",
    "--no-hierarchical-allreduce", "--hierarchical-allgather", "--no-hierarchical-allgather", "--timeline-mark-cycles",
    "--no-timeline-mark-cycles", "--stall-check", "--no-stall-check", "--mpi-threads-disable", "--no-mpi-threads-disable",
    "--tcp", "--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp", "--no-log-hide-timestamp",
    "-prefix-timestamp", "--prefix-output-with-timestamp", "-cb", "--check-build", "-v", "--version", "--verbose",
})  # fmt: skip
"""horovod/runner/launch.py, parse_args."""
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
    "mpirun": Launcher({}, _MPI_FLAGS, _MPI_PAIRS),
    "horovodrun": Launcher({}, _HOROVOD_FLAGS, frozenset({"--blacklist-cooldown-range"})),
    "srun": Launcher({}, frozenset()),
    "ray": Launcher({}, frozenset()),
}  # fmt: skip
"""torch/distributed/run.py; accelerate, src/accelerate/commands/launch.py, commands/config/config_args.py and utils/launch.py;
composer, composer/cli/launcher.py; deepspeed, deepspeed/launcher/runner.py. With dashes for underscores: the last three know the
latter."""

_PROGRAMS = {
    **{name: name for name in LAUNCHERS}, "accelerate-launch": "accelerate",
    **dict.fromkeys(("mpiexec", "mpiexec.hydra", "orterun", "prterun"), "mpirun"),
}  # fmt: skip
_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun", "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed", "composer.cli.launcher": "composer",
}  # fmt: skip
"""For ``python -m``."""


class Option(NamedTuple):
    """An option, with dashes for underscores, and its values: none of a flag, or of a variable that stands for options."""

    name: str
    values: tuple[Word, ...]


class Launch(NamedTuple):
    """A launcher in a command, with its own options and without those of the program that it starts."""

    name: str
    """Key of ``LAUNCHERS``."""
    program: str
    """As it is called in the command; of a module, the launcher's name."""
    options: tuple[Option, ...]
    simple: Simple
    behind: tuple[Word, ...]
    """What follows them: the program that it starts."""

    @property
    def launcher(self) -> Launcher:
        return LAUNCHERS[self.name]

    @property
    def in_shell(self) -> bool:
        return bool(self.simple.within)

    @property
    def is_open(self) -> bool:
        """Whether only the shell knows all options: nobody can say that one is missing."""
        return any(option.name.startswith("$") for option in self.options)

    @property
    def names(self) -> set[str]:
        return {option.name for option in self.options}

    def given(self, name: str) -> Word | None:
        """The value of an option; the last one counts."""
        return next((word for option in reversed(self.options) if option.name == name for word in option.values), None)

    def values(self, names: Sequence[str]) -> list[str]:
        """The first value of each of these options, as they are written."""
        return [option.values[0].text for option in self.options if option.name in names and option.values]

    @property
    def counts_pods(self) -> bool:
        """Whether it may be told of other pods by its options; one that is not starts ranks that meet in their own pod alone."""
        counts = self.launcher.options(Fact.NODES)
        told = self.launcher.options(Fact.ADDRESS, Fact.ENDPOINT, Fact.INDEX)
        told += [option for option in self.launcher.elsewhere if option not in counts]
        several = any(word.text not in ("1", "1:1") for word in filter(None, map(self.given, counts)))
        return several or self.is_open or not self.names.isdisjoint(told)

    def hands_on(self) -> Iterator[tuple[str, Word | None]]:
        """Variables for the ranks: ``-x NAME``, ``-x NAME=VALUE`` and ``--mca NAME VALUE`` of Open MPI, ``-genv NAME VALUE`` and
        ``-genvlist NAMES`` of Hydra. The value is None where a variable is handed on by name.
        """
        for name, values in self.options:
            if name in _BY_NAME and values and (assignment := values[0].assignment):
                yield assignment
            elif name in _BY_NAME and values:
                yield from ((each, None) for each in values[0].text.split(",") if each.isidentifier())
            elif name in _MPI_PAIRS and len(values) == 2 and values[0].text.isidentifier():
                yield f"{'' if name in ('-genv', '-env') else 'OMPI_MCA_'}{values[0].text}", values[1]


_BY_NAME = frozenset({"-x", "-genvlist", "-envlist"})
TORCH_LAUNCHERS = frozenset({"torchrun", "accelerate", "composer", "deepspeed"})
"""Launchers of ranks that meet as torch's do."""
MPI_LAUNCHERS = frozenset({"mpirun", "horovodrun"})


@lru_cache(maxsize=512)
def launches(command: Command) -> tuple[Launch, ...]:
    """Each launcher that a command starts, in the order of its text."""
    return tuple(filter(None, map(_launch, command.simple)))


def torch_launches(command: Command) -> list[Launch]:
    """Launchers of torch that start ranks for the run: beside one that may meet other pods, one that cannot prepares."""
    found = [launch for launch in launches(command) if launch.name in TORCH_LAUNCHERS]
    return [launch for launch in found if launch.counts_pods or _reads_of_pods(launch)] or found


def _reads_of_pods(launch: Launch) -> bool:
    """Whether it reads of other pods in its variables, since no option says that there are none."""
    return launch.launcher.reads_plan and launch.names.isdisjoint(("--standalone", *launch.launcher.options(Fact.NODES)))


def _launch(simple: Simple) -> Launch | None:
    for index in range(simple.start, len(simple.words)):
        name = _launcher_at(simple, index)
        if name is not None:
            program = simple.words[index].base
            start = index + 1 + (program == name and bool(LAUNCHERS[name].subcommand))
            options, behind = _options(simple.words[start:], LAUNCHERS[name])
            return Launch(name, program if program in _PROGRAMS else name, options, simple, behind)
    return None


def _launcher_at(simple: Simple, index: int) -> str | None:
    """The launcher that begins at a word: the program itself, a module of Python's, or what a program that is not known here may
    start, as long as its name is not the value of an option.
    """
    word, before = simple.words[index], simple.words[index - 1].text if index else ""
    if word.text[:2] == "-m" and word.text[2:] in _MODULES:
        return _MODULES[word.text[2:]]
    if word.text in _MODULES and before == "-m":
        return _MODULES[word.text]
    name = _PROGRAMS.get(word.base)
    if name is None or (index != simple.start and (_only_names(simple, index) or _takes_a_value(before))):
        return None
    subcommand = LAUNCHERS[name].subcommand
    follows = [word.text for word in simple.words[index + 1 : index + 2]]
    return None if subcommand and word.base == name and follows != [subcommand] else name


def _only_names(simple: Simple, index: int) -> bool:
    """Whether it is told the name at a word, and starts nothing of that name, as what installs packages does."""
    before = {word.text for word in simple.words[simple.start : index]}
    return not ONLY_NAME.isdisjoint({simple.program, simple.module}) or not INSTALL.isdisjoint(before)


def _takes_a_value(option: str) -> bool:
    """Whether the word behind it may be its value, of a program whose options are not known here."""
    return option.startswith("-") and option != "--" and "=" not in option


def _options(words: tuple[Word, ...], launcher: Launcher) -> tuple[tuple[Option, ...], tuple[Word, ...]]:
    """Up to the program, and that. What is not known to be a flag has a value, unless that looks like the program or another
    option.
    """
    index, options = 0, list[Option]()
    while index < len(words) and words[index].text.startswith(("-", "$")):
        word, follows = words[index], [each.text for each in words[index + 1 : index + 2]]
        name, equals, text = word.text.partition("=") if word.text.startswith("--") else (word.text, "", "")
        name = name.replace("_", "-") if name.startswith("--") else name
        index += 1
        if equals:
            values: tuple[Word, ...] = (word._replace(text=text, value=word.value and word.value.partition("=")[2]),)
        elif name in launcher.flags or name[0] == "$" or any(_OPTION.fullmatch(each) or each.endswith(".py") for each in follows):
            values = ()
        else:
            count = 2 if name in launcher.pairs else 1
            values = words[index : index + count]
            index += count
        options.append(Option(name, values))
    return tuple(options), words[index:]


_OPTION = re.compile(r"--.*|-[A-Za-z][\w-]*(=.*)?", re.DOTALL)
"""Not a number below zero, and not more than an option in one word, as the text ``-p 22``."""
