"""Rules on command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.codes import found
from trainwright.findings import Finding
from trainwright.plan import Plan, Resolution
from trainwright.rules.context import Context
from trainwright.rules.environment import SECRET_VALUE
from trainwright.run import CommandWorkload, ScriptWorkload

_BLANK = re.compile(r"-\s*-?[A-Za-z][-\w]*\s.*", re.DOTALL)
"""An option and more in one element; ``--name=value with blank`` is one option."""

_SHELL_BODY = re.compile(r"-[a-z]*c")
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "mpirun", "mpiexec", "horovodrun", "accelerate"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})


def command_of(context: Context) -> tuple[str, ...]:
    """The command that the run states; empty for our trainer."""
    work = context.run.workload
    return work.command if isinstance(work, CommandWorkload | ScriptWorkload) else ()


def arguments(context: Context) -> Iterator[Finding]:
    """One token an element, and no secret in any."""
    command = command_of(context)
    for number, token in enumerate(command):
        where = context.locate.run(f"/workload/command/{number}")
        in_shell = number > 0 and _SHELL_BODY.fullmatch(command[number - 1])
        if not in_shell and _BLANK.fullmatch(token) and "=" not in token.split()[0]:
            words = [word for word in token.split() if word != "-"]
            yield found(
                "TW405",
                where,
                f"{_short(token)} is one argument with a blank in it",
                f"write its words as elements of their own: {_short(words)}",
            )
        if SECRET_VALUE.search(token):
            yield found(
                "TW409",
                where,
                "an argument holds what looks like a secret, which would be committed in plain text",
                "put it into env as {secret: NAME, key: KEY}, and write $(NAME) here",
            )


def _short(value: str | list[str]) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def words_of(command: Sequence[str]) -> list[str]:
    """Every word, also those inside of a shell's script, with the name of an option apart from its value."""
    words = []
    for word in " ".join(command).split():
        name, equals, value = word.partition("=")
        words += (
            [name.replace("_", "-"), value]
            if equals and name.startswith("--")
            else [word.replace("_", "-") if word.startswith("--") else word]
        )
    return words


def torchrun_at(words: Sequence[str]) -> int | None:
    """Where torchrun begins in a list of words, under any of its names; None where it does not."""
    for index, word in enumerate(words):
        if word.rpartition("/")[2] == "torchrun" or (word in _TORCHRUN_MODULES and words[index - 1] == "-m"):
            return index
    return None


def launcher_in_script(context: Context) -> Iterator[Finding]:
    """A script is started once for each rank: a launcher in it would start every rank again."""
    work = context.run.workload
    if not isinstance(work, ScriptWorkload):
        return
    first = work.command[0].rpartition("/")[2]
    if first in _LAUNCHERS or torchrun_at(words_of(work.command)) is not None:
        name = first if first in _LAUNCHERS else "torchrun"
        yield found(
            "TW411",
            context.locate.run("/workload/command"),
            f"the supervisor starts one process a rank, and {name} would start all of them in each",
            f"write the program without {name}; or use workload command",
        )


def dynamic_rendezvous(context: Context) -> Iterator[Finding]:
    """The plan numbers the pods through PET_NODE_RANK, which only the static rendezvous reads."""
    words = words_of(command_of(context))
    for index, word in enumerate(words[:-1]):
        backend = words[index + 1]
        if word == "--rdzv-backend" and backend != "static" and "$" not in backend:
            message = f"--node_rank and PET_NODE_RANK are ignored with --rdzv_backend {_short(backend)}"
            yield found(
                "TW406",
                context.locate.run("/workload/command"),
                message,
                "remove the rendezvous options: the plan sets static rendezvous in PET_ variables",
            )


def options_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Options of torchrun win over the PET_ variables of the plan; one that says something else lets ranks wait for ever."""
    words = words_of(command_of(context))
    start = torchrun_at(words)
    if start is None or isinstance(context.run.workload, ScriptWorkload):
        return
    where, options = context.locate.run("/workload/command"), _torchrun_options(words[start + 1 :])
    for name, (wanted, field) in _planned(resolution.plan).items():
        given = options.get(name)
        if given is not None and given != wanted and "$" not in given:
            yield found(
                "TW411",
                where,
                f"{name.replace('-', '_').replace('__', '--', 1)} {_short(given)} is not what the plan says, {wanted}",
                f"remove it: torchrun reads PET_ variables; to change it, change {field}",
            )
    if "--node-rank" in options and "$" not in (options["--node-rank"] or "") and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "--node_rank is the same number in every pod", "remove it: torchrun reads PET_NODE_RANK")
    if "--standalone" in options and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "with --standalone each pod would train alone", "remove it, or set topology.nodes to 1")


def _planned(plan: Plan) -> dict[str, tuple[str, str]]:
    """Option -> its value in the plan, and the field of the run that decides it."""
    return {
        "--nnodes": (str(plan.world.nodes), "topology.nodes"),
        "--nproc-per-node": (str(plan.world.processes_per_node), "topology"),
        "--master-addr": (plan.rendezvous.host, "nothing: the plan names rank 0"),
        "--master-port": (str(plan.rendezvous.port), "nothing: the plan decides ports"),
    }


_FLAGS = frozenset({"--standalone", "--no-python", "--run-path", "-m", "--module"})


def _torchrun_options(words: Sequence[str]) -> dict[str, str | None]:
    """Options of torchrun itself, up to the program that it starts."""
    options: dict[str, str | None] = {}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] in _FLAGS:
            options[words[index]] = None
            index += 1
        else:
            options[words[index]] = words[index + 1] if index + 1 < len(words) else None
            index += 2
    return options


RUN = (arguments, launcher_in_script, dynamic_rendezvous)
PLAN = (options_against_plan,)
