"""What a pod was given, how its ranks are started and found to have ended, and the environment that each of them gets."""

from __future__ import annotations

import asyncio
import json
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV
from trainwright_trainer.contract.spec import RunSpec, Script, World
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe import flight_recorder
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.messages import (
    ATTEMPT_ENV,
    RESUME_BEFORE_ENV,
    TEMPLATE_READY,
    FromRankMessage,
    PhaseChanged,
)
from trainwright_trainer.rank.place import available_cpus
from trainwright_trainer.run.link import AGREEMENT_ENV, LINK_FD_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.interpreter import hand_path
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.last_words import LastWords
from trainwright_trainer.supervisor.pod.rank import Rank, RankProcess, kill_group
from trainwright_trainer.supervisor.wire.messages import Start


@dataclass(frozen=True, slots=True)
class Setting:
    """What a pod was given."""

    environ: Mapping[str, str]
    specification: Specification
    program: tuple[str, ...]
    """The command after ``supervise --``: under mpirun, and of work ``command``."""
    trainer_command: tuple[str, ...] | None
    """What to start as each rank of a run that is no script. Default: the program of its engine."""
    measurements: Measurements

    @property
    def spec(self) -> RunSpec:
        return self.specification.spec

    @property
    def rank_command(self) -> tuple[str, ...]:
        """What each rank runs."""
        work = self.spec.work
        if isinstance(work, Script):
            return self.program if work.kind == "command" else work.command
        return self.trainer_command or rank_program(work)


OF_TORCH = (sys.executable, "-m", "trainwright_trainer.rank")
TEMPLATE = (sys.executable, "-m", "trainwright_trainer.rank.template")


def rank_program(work: Training | Boosting) -> tuple[str, ...]:
    """What each rank of this work runs."""
    if isinstance(work, Boosting):
        return (sys.executable, "-m", "trainwright_trainer.boosting")
    return (sys.executable, "-m", "trainwright_trainer.tensorflow") if work.engine == "tensorflow" else OF_TORCH


def check_program(setting: Setting) -> None:
    """Look for the user's program before the pod waits for its peers.

    Raises :class:`PodError` with USER_FAILURE: worth another try, for the program may lie on a volume.
    """
    if not isinstance(setting.spec.work, Script):
        return
    program = setting.rank_command[0]
    if shutil.which(program, path=setting.environ.get("PATH")) is None:
        message = f"work.command starts {program!r}, and no such program is in this image; check its name, PATH and mode"
        raise PodError(ExitCode.USER_FAILURE, "NoSuchProgram", message)


AGREE_BY_COLLECTIVE: Mapping[str, str] = {AGREEMENT_ENV: "collective"}
"""For ranks whose supervisors are not connected to each other."""


def rank_environment(
    inherited: Mapping[str, str], world: World, *, node: int, local_rank: int, attempt: str, specification: Path, link: int,
    rendezvous_env: Mapping[str, str] | None = None, nodes: int | None = None, resume_before: int | None = None,
) -> dict[str, str]:
    """The whole environment of one rank.

    Args:
        link: File descriptor of its end of the socket.
        rendezvous_env: Where and how the ranks find each other. Default: at ``world.meeting``.
        nodes: In an elastic run, how many there are this time.
        resume_before: See :func:`attempt_variables`.
    """
    return {
        # Without a limit each rank would start a thread per core of the machine, and the ranks would fight over them.
        "OMP_NUM_THREADS": str(max(1, available_cpus() // world.processes_per_node)),
        **(flight_recorder.environment(attempt) if world.device == "cuda" else {}),
        **inherited,
        **numbers(world.processes_per_node, nodes or world.nodes, node, local_rank),
        **(static_rendezvous(world) if rendezvous_env is None else rendezvous_env),
        SPEC_ENV: str(specification),
        **attempt_variables(attempt, resume_before),
        LINK_FD_ENV: str(link),
    }


def attempt_variables(attempt: str, resume_before: int | None) -> dict[str, str]:
    """Which attempt it is, and the step whose commits it passes over if there are others."""
    before = {} if resume_before is None else {RESUME_BEFORE_ENV: str(resume_before)}
    return {ATTEMPT_ENV: attempt, **before}


def numbers(processes: int, nodes: int, node: int, local_rank: int) -> dict[str, str]:
    """Who a rank is, by torchrun's names: ranks are numbered node by node, ``processes`` on each."""
    return {
        "RANK": str(node * processes + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(nodes * processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
    }


def static_rendezvous(world: World) -> dict[str, str]:
    """Where the ranks find rank 0, in a world where that is known beforehand."""
    return {"MASTER_ADDR": world.meeting.host, "MASTER_PORT": str(world.meeting.port)}


def of_the_pod(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: the pod's, without what is for us. The ranks that it starts have no line to us."""
    return {name: value for name, value in environ.items() if name not in (SPEC_ENV, BIND_ENV)}


class Owner(Protocol):
    """Who is told what becomes of the ranks: the pod."""

    def rank_said(self, rank: Rank, message: FromRankMessage) -> None:
        """A message from one of the ranks, already noted by it."""

    def rank_ended(self, rank: Rank, status: int) -> None:
        """The process of a rank ended by itself or was killed; the status is negative for a signal."""

    def rank_lost(self, rank: Rank, why: str) -> None:
        """A rank that runs elsewhere is gone, and nobody knows how it ended."""

    def leave(self, code: ExitCode, cause: Cause) -> None:
        """The ranks cannot work together: end with this code."""

    def end_if_all_ended(self) -> None:
        """Decide, if no rank runs any more."""


class Launcher(Protocol):
    """One for each way of starting ranks."""

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        """Start all ranks, from the main thread. Raises ``OSError`` if the machine cannot."""

    def child_ended(self, pid: int, status: int) -> None:
        """A child of the supervisor was reaped; it may be an orphan that nobody here started."""


FORK_SECONDS = 5.0
"""In which a fork is answered that takes milliseconds."""
_WORD_BYTES = 64


class Template:
    """The process that ranks of the next attempts are forked from, which imports what they need while this one trains.

    Args:
        command: What it runs, before the descriptor of its end of the line (:mod:`rank.template`).
        environment: Its own; a rank gets what is different in that of the rank.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._known, self.ready = environment, False
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    shim.tied([*command, str(theirs.fileno())]), env=environment, stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                )
            except OSError:
                self._line.close()
                raise
        self._line.setblocking(False)
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._hear)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """The process id of a new rank.

        Raises ``ConnectionError`` where the template has ended, and forked none: that would hold the line. Where it does not
        answer, ``TimeoutError``: then one may be there all the same.
        """
        said = {name: value for name, value in environment.items() if self._known.get(name) != value}
        socket.send_fds(self._line, [json.dumps(said).encode()], [*descriptors])
        answer = select.poll()
        answer.register(self._line, select.POLLIN)
        if not answer.poll(FORK_SECONDS * 1000):
            raise TimeoutError(f"what ranks are forked from does not answer within {FORK_SECONDS:g} s")
        if not (told := self._line.recv(_WORD_BYTES)):
            raise ConnectionError("what ranks are forked from has ended")
        return int(told)

    def end(self) -> None:
        """Kill it, if it has not ended."""
        self.ready = False
        if self._line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._line.close()
        if self._process.returncode is None:
            kill_group(self.pid)

    def ended(self, status: int) -> None:
        """It was reaped."""
        self._process.returncode = status  # tells Popen that somebody else has waited for it
        self.end()

    def _hear(self) -> None:
        try:
            told = self._line.recv(_WORD_BYTES)
        except OSError:
            told = b""
        if told == TEMPLATE_READY:
            self.ready = True
        else:
            self.end()


class LocalLauncher:
    """Ranks that are children of this supervisor. Of one attempt after the other, where the run recovers in place.

    Args:
        numbers: Of the ranks, by local rank.
        command: What each of them runs.
        environment: Local rank, node 0's word and the descriptor of its link -> the environment of that rank.
        listen: Makes what hears a rank's standard error; default: it is the pod's own.
        template: Command of what the ranks of a next attempt are forked from; default: all are started by ``command``.
    """

    def __init__(
        self, numbers: Sequence[int], command: Sequence[str], environment: Callable[[int, Start, int], Mapping[str, str]],
        listen: Callable[[], LastWords | None] = lambda: None, template: Sequence[str] = (),
    ) -> None:
        self._template_command = template
        self._template: Template | None = None
        self._prepares_from: Start | None = None
        """The attempt, if no template has been made in it: one that dies whenever it is made must not be made in a loop."""
        self._numbers, self._command, self._environment = numbers, command, environment
        self._listen, self._ranks = listen, list[RankProcess]()
        self._owner: Owner | None = None

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        self._owner, self._ranks, self._prepares_from = owner, [], start
        for local_rank, number in enumerate(self._numbers):
            rank = RankProcess(number, self._heard)
            environment = self._environment(local_rank, start, rank.link_descriptor)
            try:
                if not self._forked(rank, environment):
                    rank.spawn(self._command, environment, self._listen())
            except OSError:
                rank.never_began()
                for started in self._ranks:
                    started.kill()
                raise
            self._ranks.append(rank)
        get_log().info("ranks_started", ranks=[rank.number for rank in self._ranks], pids=[rank.pid for rank in self._ranks])
        return self._ranks

    def _forked(self, rank: RankProcess, environment: Mapping[str, str]) -> bool:
        template = self._template
        if template is None or not template.ready:
            return False
        try:
            rank.fork(partial(template.fork, environment))
        except ConnectionError:
            template.end()
            return False
        except TimeoutError:
            template.end()
            raise
        return True

    def _heard(self, rank: Rank, message: FromRankMessage) -> None:
        if self._owner is not None:
            self._owner.rank_said(rank, message)
        if isinstance(message, PhaseChanged) and message.phase == "training" and self._template_command and not self._template:
            self._prepare()

    def _prepare(self) -> None:
        """Now: before, it would take processors from ranks that start. Where that attempt resumed is its own business."""
        if self._prepares_from is None:
            return
        start, self._prepares_from = self._prepares_from.model_copy(update={"resume_before": None}), None
        with suppress(OSError):  # the next attempt starts without it
            self._template = Template(self._template_command, self._environment(0, start, -1))

    @property
    def waiting(self) -> frozenset[int]:
        """Process ids of what stays between two attempts."""
        return frozenset() if self._template is None else frozenset({self._template.pid})

    def child_ended(self, pid: int, status: int) -> None:
        if self._template is not None and self._template.pid == pid:
            get_log().warning("template_ended", status=status)
            self._template.ended(status)
            self._template = None
            if status == 0:  # it is of no use, and another one would not be either
                self._template_command = ()
        for rank in self._ranks:
            if rank.pid == pid and self._owner is not None:
                rank.ended(status, self._owner.end_if_all_ended)
                self._owner.rank_ended(rank, status)


def local_launcher(
    setting: Setting, place: PodPlace, rendezvous_env: Mapping[str, str], nodes: int | None = None
) -> LocalLauncher:
    """The ranks of one node, as children of its supervisor.

    Args:
        rendezvous_env: Where and how they find the others.
        nodes: In an elastic run, how many there are this time.
    """
    world, node = setting.spec.world, place.node or 0
    if setting.spec.work.kind == "command":
        return LocalLauncher([node], setting.rank_command, lambda *_: of_the_pod(setting.environ), LastWords)
    first = node * world.processes_per_node
    inherited = setting.environ
    is_script = isinstance(setting.spec.work, Script)
    if isinstance(setting.spec.work, Script):  # one that is killed has written its last lines
        inherited = {"PYTHONUNBUFFERED": "1", **inherited, **(hand_path(inherited) if setting.spec.work.calls_us else {})}

    def environment(local_rank: int, start: Start, link: int) -> dict[str, str]:
        return rank_environment(
            inherited, world, node=node, local_rank=local_rank, attempt=start.attempt,
            specification=setting.specification.path, link=link, rendezvous_env=rendezvous_env, nodes=nodes,
            resume_before=start.resume_before,
        )

    numbers = range(first, first + world.processes_per_node)
    forks = setting.spec.lifecycle.recovery is not None and setting.rank_command == OF_TORCH and sys.platform == "linux"
    return LocalLauncher(
        numbers, setting.rank_command, environment, LastWords if is_script else lambda: None, TEMPLATE if forks else ()
    )
