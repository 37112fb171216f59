"""Rules on command lines, and on what a command has to do by itself to meet its peers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.environment import SECRET_VALUE
from trainwright.run import CommandWorkload, ScriptWorkload

_BLANK = re.compile(r"-\s*-?[A-Za-z][-\w]*\s.*", re.DOTALL)
"""An option and more in one element; ``--name=value with blank`` is one option."""

_SHELL_BODY = re.compile(r"-[a-z]*c")
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "mpirun", "mpiexec", "horovodrun", "accelerate"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PYTHON = re.compile(r"python[0-9.]*")
_STARTS_RANKS = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "srun", "ray"})
_TRACKERS = ("tracker", "dmlc-submit", "dmlc_submit")
"""Words of a command that starts XGBoost's tracker by name."""
_OTHER_PODS = {"deepspeed": ("--hostfile", "-H", "--no-ssh"), "accelerate": ("--num-machines", "--config-file")}
"""Launcher -> options without which it starts ranks in its own pod only."""


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
                f"{_short(token)} is one argument with a space in it",
                f"write its words as separate elements: {_short(words)}",
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
            message = f"--node_rank and PET_NODE_RANK are ignored with --rdzv_backend {_short(backend)}"
            yield found(
                "TW406",
                context.locate.run("/workload/command"),
                message,
                "remove the rendezvous options: the plan sets static rendezvous in PET_ variables",
            )


def options_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Options of torchrun win over the PET_ variables of the plan; an option that differs makes ranks wait forever."""
    words = words_of(command_of(context))
    start = torchrun_at(words)
    torch = resolution.needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if start is None or not torch or isinstance(context.run.workload, ScriptWorkload):
        return
    where, options = context.locate.run("/workload/command"), _torchrun_options(words[start + 1 :])
    for name, (wanted, decided) in _planned(resolution).items():
        given = options.get(name)
        if given is not None and given != wanted and "$" not in given:
            yield found(
                "TW411",
                where,
                f"{name.replace('-', '_').replace('__', '--', 1)} {_short(given)} is not what the plan says, {wanted}",
                f"remove it: torchrun reads PET_ variables; {decided}",
            )
    if "--node-rank" in options and "$" not in (options["--node-rank"] or "") and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "--node_rank is the same number in every pod", "remove it: torchrun reads PET_NODE_RANK")
    if "--standalone" in options and resolution.plan.world.nodes > 1:
        yield found("TW411", where, "with --standalone each pod would train alone", "remove it, or set topology.nodes to 1")


def _planned(resolution: Resolution) -> dict[str, tuple[str, str]]:
    """Option -> its value in the plan, and what decides it."""
    plan, elastic = resolution.plan, resolution.needs.elastic
    each = {"--nproc-per-node": (str(plan.world.processes_per_node), "to change it, change topology")}
    if elastic:
        return {"--nnodes": (f"{elastic.minimum}:{elastic.maximum}", "to change it, change topology.elastic"), **each}
    return {
        "--nnodes": (str(plan.world.nodes), "to change it, change topology.nodes"),
        **each,
        "--master-addr": (plan.rendezvous.host, "the plan names rank 0"),
        "--master-port": (str(plan.rendezvous.port), "the plan decides ports"),
    }


_FLAGS = frozenset({"--standalone", "--no-python", "--run-path", "-m", "--module"})


def _torchrun_options(words: Sequence[str]) -> dict[str, str | None]:
    """Options of torchrun itself, without those of the program that it starts."""
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


def starts_the_ranks(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A command is the whole pod: one that starts no ranks leaves it at one process, which nobody told who it is."""
    work, needs = context.run.workload, resolution.needs
    torch = needs.rendezvous in (Rendezvous.STATIC, Rendezvous.C10D)
    if not isinstance(work, CommandWorkload) or not torch or needs.world_size == 1:
        return
    words = words_of(work.command)
    programs = [word.rpartition("/")[2] for word in words]
    if torchrun_at(words) is not None or not _STARTS_RANKS.isdisjoint(programs):
        return
    where, fix = context.locate.run("/workload/command"), "write torchrun before the program: it reads the plan's PET_ variables"
    launcher = next((name for name in programs if name in _OTHER_PODS), None)
    if launcher is not None:
        if needs.nodes > 1 and not any(option in words for option in _OTHER_PODS[launcher]):
            message = f"{launcher} starts ranks in its own pod only, and the run has {needs.nodes} pods: each would train alone"
            yield found("TW450", where, message, f"{fix}; or give {launcher} the other hosts")
    elif any(_PYTHON.fullmatch(program) for program in programs):
        alone = _alone(resolution)
        if alone:
            yield found("TW450", where, alone, f"{fix}; or use workload script, which starts one process per rank")


def _alone(resolution: Resolution) -> str | None:
    """What a plain program would do; None if the operator tells each pod its rank and each pod holds one."""
    needs, told = resolution.needs, {"RANK", "WORLD_SIZE"} <= resolution.binding.injects.keys()
    if needs.processes_per_node == 1:
        return None if told else f"nothing tells the program its rank: each of {needs.nodes} pods would train alone"
    missing = needs.world_size - needs.nodes
    if told:
        seen = f"the program sees WORLD_SIZE {needs.world_size} and takes its pod's number for its rank"
        return f"{seen}: it would wait for {missing} ranks that never start"
    return f"the program is one process in each of {needs.nodes} pods: {missing} of {needs.world_size} ranks are not started"


def keras(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Keras 3 has no ``fit`` for several workers (keras-team/keras#20585)."""
    opaque = isinstance(context.run.workload, CommandWorkload | ScriptWorkload)
    if context.run.env.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        return
    if opaque and resolution.needs.rendezvous is Rendezvous.TF_CONFIG and resolution.needs.nodes > 1:
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


RUN = (arguments, launcher_in_script, dynamic_rendezvous)
PLAN = (options_against_plan, starts_the_ranks, keras, tracker)
