"""Rules on command lines, and on what a command has to do by itself to meet its peers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from trainwright.command.launchers import MPI_LAUNCHERS, TORCH_LAUNCHERS, launches, torch_launches
from trainwright.command.model import Command
from trainwright.command.names import SHELLS
from trainwright.command.reading import interpreter, read, script
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found, milder
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.handshake import Rendezvous, Role
from trainwright.plan import Resolution
from trainwright.program.values import variable_findings
from trainwright.rendezvous.tensorflow import tasks_of
from trainwright.rules.program.environment import fabric_findings, stated_facts
from trainwright.rules.secrets import secret_findings
from trainwright.run import CommandWorkload, ScriptWorkload

_BLANK = re.compile(r"-\s*-?[A-Za-z][-\w]*\s.*", re.DOTALL)
"""An option and more in one element; ``--name=value with blank`` is one option."""

_MAY_RUN = 0o111
"""Of a file's permissions: that its owner, its group or anybody else may execute it."""
_TRACKERS = ("tracker", "dmlc-submit", "dmlc_submit")
"""Words of a command that starts XGBoost's tracker by name."""


class Line(NamedTuple):
    """A command line that the run states: its own, or that of one role."""

    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    at: str = "/workload"
    inherited: int = 0
    """Words at the front that a role has from the run, because it states arguments alone."""

    @property
    def words(self) -> tuple[str, ...]:
        """Without the image's entrypoint, where the line states no command."""
        return (*self.command, *self.args)

    @property
    def pointer(self) -> str:
        """Where in the run the line is stated."""
        return f"{self.at}/{'command' if self.command and not self.inherited else 'args'}"

    def stated(self) -> Iterator[tuple[int, str, str]]:
        """Number, word and pointer of each word that is stated here."""
        first = len(self.command)
        for number, word in enumerate(self.words[self.inherited :], self.inherited):
            yield number, word, f"{self.at}/{f'command/{number}' if number < first else f'args/{number - first}'}"

    @property
    def read(self) -> Command:
        """What the line does."""
        return read(self.words)


def line_of(context: Context) -> Line:
    """The command that the run states; empty for our trainer."""
    work = context.run.workload
    if isinstance(work, CommandWorkload):
        return Line(tuple(work.command or ()), tuple(work.args))
    return Line(tuple(work.command) if isinstance(work, ScriptWorkload) else ())


def line_of_role(context: Context, name: str) -> Line | None:
    """What a role states in place of the run's command; None where it states nothing."""
    parts = context.run.roles.get(name)
    if parts is None or not (parts.command or parts.args):
        return None
    run = () if parts.is_further else line_of(context).command
    return Line(tuple(parts.command or run), tuple(parts.args), f"/roles/{escape(name)}", 0 if parts.command else len(run))


def stated_lines(context: Context) -> list[Line]:
    """The command of the run, and those of its roles."""
    return [line_of(context), *(line for name in context.run.roles if (line := line_of_role(context, name)))]


def line_in(context: Context, resolution: Resolution, role: Role) -> Line | None:
    """What the pods of a role run: the role's own line, or the run's; None where that is the image's, or a program of ours."""
    return line_of_role(context, role.name) or (line_of(context) if resolution.binding.runs_the_work(role) else None)


def lines_of_ranks(context: Context, resolution: Resolution) -> list[Line]:
    """The commands that start ranks, each once: that of the run, unless every role has its own."""
    works = [role.name for role in resolution.binding.roles if not role.further and resolution.binding.runs_the_work(role)]
    lines = [line_of_role(context, name) for name in works]
    return [*([line_of(context)] if None in lines else []), *filter(None, lines)]


_LINE = re.compile(r"[^/\s]+\s+\S.*|\S+\s+[-/.].*", re.DOTALL)
"""A whole command line in one word; a path with blanks has a slash before them, and its next word begins with a letter."""


def scripts_of(context: Context, command: Command) -> Iterator[tuple[str, Command]]:
    """Scripts of a shell among the run's files that a command names, with the place of each."""
    named = {word.text for word in command.words()}
    yield from ((f"/files/{escape(path)}", read_here) for path, read_here in scripts_in(context) if path in named)


def scripts_in(context: Context) -> Iterator[tuple[str, Command]]:
    """Every script of a shell among the run's files, by its path."""
    for path, content in context.run.files.items():
        if isinstance(content, str):
            named = {word.base for word in interpreter(content)[:1]}
            if path.endswith((".sh", ".bash")) or named & SHELLS:
                yield path, script(content)


def arguments(context: Context) -> Iterator[Finding]:
    """One token an element."""
    for line in stated_lines(context):
        texts = line.read.simple[0].texts
        settings = {values[1].text for launch in launches(line.read) for _, values in launch.options if len(values) > 1}
        for number, token, pointer in line.stated():
            if number == 0 and line.command and _LINE.fullmatch(token) and token not in context.run.files:
                message = f"{shown(token)} is one word, and so the name of a program, which no image has"
                fix = f"write its words as separate elements: {shown(token.split())}"
                yield found("TW405", context.locate.run(pointer), message, fix)
                continue
            if number not in texts and _BLANK.fullmatch(token) and "=" not in token.split()[0] and token not in settings:
                words = [word for word in token.split() if word != "-"]
                message = f"{shown(token)} is one argument with a space in it"
                fix = f"write its words as separate elements: {shown(words)}"
                yield found("TW405", context.locate.run(pointer), message, fix)


def shown(value: str | list[str]) -> str:
    """A part of a command, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def runs_a_file(context: Context) -> Iterator[Finding]:
    """Files of the run come from a ConfigMap, whose files nobody may execute unless the run says so: an interpreter has to read
    them.
    """
    for line in stated_lines(context):
        places = {number: pointer for number, _, pointer in line.stated()}
        for simple in line.read.simple:
            number, program = simple.at or 0, simple.words[simple.start].text if simple.program else ""
            may_run = int(context.run.file_modes.get(program, "0"), 8) & _MAY_RUN
            if program in context.run.files and number in places and not may_run:
                message = f"{program} is a file of the run, and files are mounted without the permission to run"
                fix = f'name its interpreter first, as in [bash, {program}]; or write file_modes: {{{program}: "0555"}}'
                yield found("TW418", context.locate.run(places[number]), message, fix)


def launcher_in_script(context: Context) -> Iterator[Finding]:
    """A script is started once for each rank: a launcher in it would start every rank again."""
    work = context.run.workload
    if not isinstance(work, ScriptWorkload):
        return
    started = [launch for launch in launches(line_of(context).read) if launch.name in TORCH_LAUNCHERS | MPI_LAUNCHERS]
    for launch in started[:1]:
        yield found(
            "TW411",
            context.locate.run("/workload/command"),
            f"the supervisor starts one process per rank, and {launch.program} would start all ranks in each",
            f"write the program without {launch.program}; or use workload command",
        )


def dynamic_rendezvous(context: Context) -> Iterator[Finding]:
    """The plan numbers the pods through PET_NODE_RANK, which only static rendezvous reads; elastic runs have none."""
    needs = context.run.topology.needs()
    elastic = needs.rendezvous is Rendezvous.C10D
    if needs.nodes == 1 and not elastic:
        return
    further = {f"/roles/{escape(name)}" for name, parts in context.run.roles.items() if parts.is_further}
    lines = [line for line in stated_lines(context) if line.at not in further]
    for at, launch in ((line.pointer, launch) for line in lines for launch in torch_launches(line.read)):
        where, backend = context.locate.run(at), launch.given("--rdzv-backend")
        if backend is None or backend.reads:
            continue
        if elastic and backend.text == "static":
            message = "nodes of an elastic run have no numbers, and with --rdzv_backend static each is the first"
            yield found("TW406", where, message, "remove the rendezvous options: the plan sets c10d in PET_ variables")
        elif not elastic and backend.text != "static":
            has_endpoint = "--rdzv-endpoint" in launch.names or "PET_RDZV_ENDPOINT" in context.run.env
            yield _of_fixed_nodes(backend.text, where, has_endpoint)


def _of_fixed_nodes(backend: str, where: Where, has_endpoint: bool) -> Finding:
    """c10d works with an endpoint, and ranks are then in another order; without one each pod takes its own localhost
    (torch/distributed/run.py, get_rdzv_endpoint; elastic/rendezvous/c10d_rendezvous_backend.py). Any other backend is a server
    outside of the run.
    """
    fix = "remove the rendezvous options: the plan sets static rendezvous in PET_ variables"
    if not has_endpoint and backend != "c10d":
        message = f"with --rdzv_backend {shown(backend)} and no --rdzv_endpoint torchrun looks for the server on its own pod"
        return found("TW406", where, message, f"{fix}; or name the server, as in --rdzv_endpoint=etcd.example.com:2379")
    if not has_endpoint:
        message = f"with --rdzv_backend {shown(backend)} and no --rdzv_endpoint each pod waits at an address of its own"
        return found("TW406", where, message, f"{fix}; or add --rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)")
    message = f"--node_rank and PET_NODE_RANK are ignored with --rdzv_backend {shown(backend)}: ranks do not follow the pods"
    return milder("TW406", where, message, f"{fix}; or waive this, if no rank needs its place")


def assigned(command: Command) -> dict[str, str | None]:
    """Variables that a command sets for its programs, or hands on by name. A value that is only known when it runs is None."""
    handed = (pair for launch in launches(command) for pair in launch.hands_on())
    values = {**dict(handed), **dict(command.sets())}
    return {name: word.value if word and not word.reads else None for name, word in values.items()}


def set_once(command: Command) -> dict[str, str | None]:
    """Variables that a command sets in one place; of one that it sets twice, the shell decides."""
    names = [name for name, _ in command.sets()]
    return {name: value for name, value in assigned(command).items() if names.count(name) == 1}


def variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the catalogue says of variables that the command sets; of those that it hands on, the run's own env is judged."""
    planned = {variable.name for variable in resolution.plan.environment}
    for line in lines_of_ranks(context, resolution):
        env = {name: value for name, value in assigned(line.read).items() if value is not None or name not in planned}
        where = context.locate.run(line.pointer)
        once = {name: value for name, value in set_once(line.read).items() if value is not None}
        denied = {fact.name: once[fact.name] for fact in stated_facts(once, resolution) if not fact.agrees(once[fact.name])}
        others = {name: value for name, value in env.items() if name not in denied}
        yield from fabric_findings(context, resolution, denied, partial(_same, where))
        yield from variable_findings(others, partial(_same, where))
        yield from secret_findings(env, partial(_same, where))


def _same(where: Where, _: str) -> Where:
    """One place for all variables of a command."""
    return where


def keras(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Keras 3 has no ``fit`` for several workers (keras-team/keras#20585)."""
    opaque = isinstance(context.run.workload, CommandWorkload | ScriptWorkload)
    if context.run.env.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        return
    needs = resolution.needs
    if opaque and needs.rendezvous is Rendezvous.TF_CONFIG and needs.nodes > 1 and not tasks_of(needs).parameter_servers:
        message = "model.fit of Keras 3 does not run under MultiWorkerMirroredStrategy"
        fix = 'add TF_USE_LEGACY_KERAS: "1" to env and tf_keras to the image; or write a loop around strategy.run, and waive this'
        yield found("TW429", context.locate.run("/workload/command"), message, fix)


def tracker(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Workers meet at a tracker, which no operator starts: our trainer does, and a command has to."""
    if resolution.needs.rendezvous is not Rendezvous.DMLC_TRACKER or not isinstance(context.run.workload, CommandWorkload):
        return
    lines = lines_of_ranks(context, resolution)
    if any(word in token.lower() for line in lines for token in line.words for word in _TRACKERS):
        return
    binding = resolution.binding
    index = next((name for name in binding.renders if name.startswith("DMLC_")), binding.node_index_env)
    message = f"nothing starts XGBoost's tracker: all pods would wait for it at DMLC_TRACKER_URI, port {binding.rendezvous_port}"
    fix = (
        f"use workload boosting, whose trainer starts it; or start xgboost.tracker.RabitTracker where {index} is 0, "
        "hand its address to xgboost.collective, and waive this"
    )
    yield found("TW421", context.locate.run("/workload/command"), message, fix)


def programs_are_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What pods without ranks start must be in their image, or in what they mount: mounts of the run are for its ranks."""
    mounts, binding = context.run.rank_mounts, resolution.binding
    for role in (one for one in binding.roles if not one.holds_ranks):
        driver = binding.replaces_command and role == binding.roles[0]
        line = line_of(context) if driver else line_in(context, resolution, role)
        if line is None or not line.command or not (role.further or isinstance(context.run.workload, CommandWorkload)):
            continue
        there = [*resolution.mounts[role.name], *context.run.files]
        for path in dict.fromkeys(_started(line.read)):
            mount = max((one for one in mounts if path.is_relative_to(one)), key=len, default=None)
            if mount and not any(path.is_relative_to(one) for one in there):
                message = f"pods of role {role.name} start {path}, and {mount} is mounted in the pods that hold ranks alone"
                fix = f"write the mount under roles.{role.name}.mounts too, or under roles.all.mounts; or use a path of the image"
                yield found("TW332", context.locate.run(line.pointer), message, fix)


def _started(command: Command) -> Iterator[PurePosixPath]:
    """Programs, and the files that shells and python read as theirs."""
    for simple in command.simple:
        first, *rest = [word.text for word in simple.words[simple.start :]] or [""]
        words = [first]
        if simple.program in SHELLS or simple.program.startswith("python"):
            options = [*takewhile(lambda word: word.startswith("-"), rest)]
            words += [] if {"-c", "-m"} & {*options} else rest[len(options) :][:1]
        yield from (PurePosixPath(word) for word in words if word.startswith("/"))


RUN = (arguments, runs_a_file, launcher_in_script, dynamic_rendezvous)
PLAN = (variables, keras, tracker, programs_are_there)
