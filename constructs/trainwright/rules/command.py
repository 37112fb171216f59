"""Rules on command lines, and on what a command has to do by itself to meet its peers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.environment import variable_findings
from trainwright.rules.secrets import secret_findings
from trainwright.run import CommandWorkload, ScriptWorkload

_BLANK = re.compile(r"-\s*-?[A-Za-z][-\w]*\s.*", re.DOTALL)
"""An option and more in one element; ``--name=value with blank`` is one option."""

_MAY_RUN = 0o111
"""Of a file's permissions: that its owner, its group or anybody else may execute it."""
_SHELL_BODY = re.compile(r"-[a-z]*c")
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "mpirun", "mpiexec", "horovodrun", "accelerate", "composer"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_TRACKERS = ("tracker", "dmlc-submit", "dmlc_submit")
"""Words of a command that starts XGBoost's tracker by name."""


def command_of(context: Context) -> tuple[str, ...]:
    """The command that the run states; empty for our trainer."""
    work = context.run.workload
    if isinstance(work, CommandWorkload):
        return work.words
    return tuple(work.command) if isinstance(work, ScriptWorkload) else ()


def word_at(context: Context, number: int) -> Where:
    """Where the run states one word of its command."""
    work = context.run.workload
    first = len(work.command or ()) if isinstance(work, CommandWorkload) else number + 1
    place = f"command/{number}" if number < first else f"args/{number - first}"
    return context.locate.run(f"/workload/{place}")


def arguments(context: Context) -> Iterator[Finding]:
    """One token an element."""
    command = command_of(context)
    for number, token in enumerate(command):
        where = word_at(context, number)
        in_shell = number > 0 and _SHELL_BODY.fullmatch(command[number - 1])
        if not in_shell and _BLANK.fullmatch(token) and "=" not in token.split()[0]:
            words = [word for word in token.split() if word != "-"]
            yield found(
                "TW405",
                where,
                f"{shown(token)} is one argument with a space in it",
                f"write its words as separate elements: {shown(words)}",
            )


def shown(value: str | list[str]) -> str:
    """A part of a command, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def words_of(command: Sequence[str]) -> list[str]:
    """Every word, also those inside a shell's script, with the name of an option apart from its value."""
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


def runs_a_file(context: Context) -> Iterator[Finding]:
    """Files of the run come from a ConfigMap, whose files nobody may execute unless the run says so: an interpreter has to read
    them.
    """
    command = command_of(context)
    for number, word in enumerate(command):
        in_shell = number > 0 and _SHELL_BODY.fullmatch(command[number - 1])
        program = next(iter(word.split()), "") if in_shell else word
        may_run = int(context.run.file_modes.get(program, "0"), 8) & _MAY_RUN
        if program in context.run.files and (in_shell or number == 0) and not may_run:
            where = word_at(context, number)
            message = f"{program} is a file of the run, and files are mounted without the permission to run"
            fix = f'name its interpreter first, as in [bash, {program}]; or write file_modes: {{{program}: "0555"}}'
            yield found("TW418", where, message, fix)


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
            f"the supervisor starts one process per rank, and {name} would start all ranks in each",
            f"write the program without {name}; or use workload command",
        )


def dynamic_rendezvous(context: Context) -> Iterator[Finding]:
    """The plan numbers the pods through PET_NODE_RANK, which only static rendezvous reads; elastic runs have none."""
    if context.run.topology.needs().rendezvous is Rendezvous.C10D:
        return
    words = words_of(command_of(context))
    for index, word in enumerate(words[:-1]):
        backend = words[index + 1]
        if word == "--rdzv-backend" and backend != "static" and "$" not in backend:
            message = f"--node_rank and PET_NODE_RANK are ignored with --rdzv_backend {shown(backend)}"
            yield found(
                "TW406",
                context.locate.run("/workload/command"),
                message,
                "remove the rendezvous options: the plan sets static rendezvous in PET_ variables",
            )


def words_in(command: Sequence[str]) -> Iterator[str]:
    """Each argument, and the words of a shell's script as the shell would divide them."""
    for number, token in enumerate(command):
        if number == 0 or not _SHELL_BODY.fullmatch(command[number - 1]):
            yield token
            continue
        try:
            yield from shlex.split(token, comments=True)
        except ValueError:  # a quote that nothing closes
            yield from token.split()


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def assigned(command: Sequence[str]) -> dict[str, str | None]:
    """Variables that a command sets itself, or hands on by name, for its own programs: ``-x NAME=VALUE``, ``-x NAME`` and
    ``--mca NAME VALUE`` of Open MPI, ``-genv NAME VALUE`` and ``-genvlist NAMES`` of Hydra, ``env NAME=VALUE``, and what a
    shell's script assigns. A value that is only known when it runs is None.
    """
    words, found_here = [word.removesuffix(";") for word in words_in(command)], dict[str, str | None]()
    for index, word in enumerate(words):
        first, second = (*words[index + 1 : index + 3], "", "")[:2]
        if match := _ASSIGNMENT.fullmatch(word):
            found_here[match[1]] = match[2]
        elif word in _NAMES:
            found_here |= {name: None for name in first.split(",") if _NAME.fullmatch(name)}
        elif word in _MCA and _NAME.fullmatch(first):
            found_here[f"OMPI_MCA_{first}"] = second
        elif word in ("-genv", "-env") and _NAME.fullmatch(first):
            found_here[first] = second
    return {name: None if value and ("$" in value or "`" in value) else value for name, value in found_here.items()}


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = frozenset({"-x", "-genvlist", "-envlist"})
_MCA = frozenset({"--mca", "-mca", "--gmca", "-gmca"})


def variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the catalogue says of variables that the command sets; of those that it hands on, the run's own env is judged."""
    planned = {variable.name for variable in resolution.plan.environment}
    env = {name: value for name, value in assigned(command_of(context)).items() if value is not None or name not in planned}
    where = context.locate.run("/workload/command")
    yield from variable_findings(env, lambda _: where)
    yield from secret_findings(env, lambda _: where)


def keras(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Keras 3 has no ``fit`` for several workers (keras-team/keras#20585)."""
    opaque = isinstance(context.run.workload, CommandWorkload | ScriptWorkload)
    if context.run.env.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        return
    needs = resolution.needs
    if opaque and needs.rendezvous is Rendezvous.TF_CONFIG and needs.nodes > 1 and not needs.parameter_servers:
        message = "model.fit of Keras 3 does not run under MultiWorkerMirroredStrategy"
        fix = 'add TF_USE_LEGACY_KERAS: "1" to env and tf_keras to the image; or write a loop around strategy.run, and waive this'
        yield found("TW429", context.locate.run("/workload/command"), message, fix)


def tracker(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Workers meet at a tracker, which no operator starts: our trainer does, and a command has to."""
    if resolution.needs.rendezvous is not Rendezvous.DMLC_TRACKER or not isinstance(context.run.workload, CommandWorkload):
        return
    if any(word in token.lower() for token in command_of(context) for word in _TRACKERS):
        return
    binding = resolution.binding
    index = next((name for name in binding.renders if name.startswith("DMLC_")), binding.node_index_env)
    message = f"nothing starts XGBoost's tracker: all pods would wait for it at DMLC_TRACKER_URI, port {binding.rendezvous_port}"
    fix = (
        f"use workload boosting, whose trainer starts it; or start xgboost.tracker.RabitTracker where {index} is 0, "
        "hand its address to xgboost.collective, and waive this"
    )
    yield found("TW421", context.locate.run("/workload/command"), message, fix)


RUN = (arguments, runs_a_file, launcher_in_script, dynamic_rendezvous)
PLAN = (variables, keras, tracker)
