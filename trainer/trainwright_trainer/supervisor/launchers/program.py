"""Ranks of all nodes that one launcher starts, mpirun or Ray Train, each with a line of its own to the launcher's supervisor."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from pydantic import TypeAdapter

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.spec import Script
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.messages import ToRankMessage
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.event_loop import Timers
from trainwright_trainer.supervisor.launchers.remote_rank import (
    DIAL_ENV,
    FROM_REMOTE_RANK,
    Answer,
    Call,
    Exited,
    FromRemoteRankMessage,
    Hello,
    SendSignal,
    StacksWritten,
    ToldToEnd,
    Welcome,
    keep_alive,
    shared_key,
)
from trainwright_trainer.supervisor.place import EVERYWHERE, PodPlace
from trainwright_trainer.supervisor.pod.launcher import Owner, Setting, attempt_variables, numbers
from trainwright_trainer.supervisor.pod.rank import OnWord, Rank, RankLink, kill_group
from trainwright_trainer.supervisor.run.attempt import Attempt, connected_attempt
from trainwright_trainer.supervisor.wire.control import INTRODUCTION_SECONDS, SPARE_CONNECTIONS, DroppedLog
from trainwright_trainer.supervisor.wire.messages import Start
from trainwright_trainer.supervisor.wire.proof import Proof, new_nonce

OnRankMessage = Callable[["RankConnection", FromRemoteRankMessage | None], None]
"""None stands for a line that is no message."""
OnEnd = Callable[["RankConnection"], None]
LAST_ENV = "TRAINWRIGHT_LAST"
"""Stands last in the launcher's environment, for MPICH (4.0.2 and 5.0.2) loses the last variable on its way through ssh."""
TERM_SECONDS = 5.0
"""For a launcher to end its ranks on the other hosts after SIGTERM, which takes mpirun about two; then it is killed."""
EXIT_SECONDS = 30.0
"""For a launcher to end after the last rank did."""


class Credentials(NamedTuple):
    """By which a rank and the launcher's supervisor know each other, beside the attempt's token."""

    identity: str
    attempt: str
    secret: str | None
    """Path of a file that is the same in all pods of the run, and nowhere else."""


@dataclass(frozen=True, slots=True)
class LauncherProgram:
    """A program that starts :data:`PARENT_MODULE` as every rank, with :data:`DIAL_ENV` in its environment."""

    name: str
    """For people."""
    command: tuple[str, ...]
    remedy: str
    """What a person changes where it numbers ranks in another order."""
    rendezvous_env: Mapping[str, str] = field(default_factory=dict)
    """Where torch's ranks meet, if that is known before they are placed; else the launcher tells them."""
    own_env: Mapping[str, str] = field(default_factory=dict)
    """What the program itself needs beside the pod's variables."""
    causes: Mapping[int, tuple[ExitCode, str]] = field(default_factory=dict)
    """Exit status -> what it means, in a run of which no rank began."""

    def failure(self, status: int) -> tuple[ExitCode, Cause]:
        """Why no rank began."""
        unknown = f"{self.name} exited with {status} before any rank began; its output above says why"
        code, message = self.causes.get(status, (ExitCode.INTERNAL, unknown))
        return code, Cause(kind="LauncherFailed", message=message)


def launched_role(setting: Setting, place: PodPlace, launcher: RemoteLauncher) -> Attempt:
    """The role of the pod with the launcher: it holds no ranks, and decides for all of them."""
    attempt = connected_attempt(setting, place, launcher)
    launcher.on_told = lambda host: attempt.stop(Cause(kind="ToldToEnd", message=f"{host} was told to end"))
    return attempt


class RemoteLauncher:
    """The ranks of all nodes, started by one launcher. A :class:`Launcher`."""

    def __init__(self, setting: Setting, place: PodPlace, program: LauncherProgram, secret: str | None) -> None:
        self.on_told = _nobody
        self._secret = secret
        self._setting, self._place, self._program = setting, place, program
        self._ranks: list[RemoteRank] = []
        self._exited: set[int] = set()
        self._owner: Owner | None = None
        self._of_attempt: Mapping[str, str] = {}
        self._listener: RankListener | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._timers = Timers()
        self._ending = False

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        self._owner, self._of_attempt = owner, attempt_variables(start.attempt, start.resume_before)
        bind = self._place.bind
        host = socket.gethostbyname(self._place.host) if bind == EVERYWHERE else bind
        spec = self._setting.spec
        credentials = Credentials(spec.identity, start.attempt, self._secret)
        self._listener = RankListener(
            bind, host, credentials, spec.world.size, self._greet, self._rank_exited, self._rank_lost, self._told_to_end
        )
        now = asyncio.get_running_loop().time()
        for number in range(self._setting.spec.world.size):
            rank = RemoteRank(number, owner.rank_said, self._end)
            rank.alive, rank.progressed_at = True, now
            self._ranks.append(rank)
        self._process = subprocess.Popen(
            shim.tied(self._program.command),
            env={**self._setting.environ, **self._program.own_env, DIAL_ENV: self._listener.address, LAST_ENV: ""},
            stdin=subprocess.DEVNULL, start_new_session=True,
        )
        get_log().info("launcher_started", pid=self._process.pid, ranks=len(self._ranks))
        return self._ranks

    def child_ended(self, pid: int, status: int) -> None:
        if self._process is None or pid != self._process.pid or self._owner is None:
            return
        self._process.returncode = status
        self._timers.cancel()
        get_log().info("launcher_ended", status=status)
        if self._listener is not None:
            self._listener.close()
        began = any(rank.host for rank in self._ranks)
        if not began and not self._ending:
            self._ending = True
            self._owner.leave(*self._program.failure(status))
        for rank in self._ranks:
            rank.alive = False
        for rank in self._ranks:
            if rank.number not in self._exited and began:
                self._owner.rank_lost(rank, f"{self._program.name} exited with {status} before it said how it ended")
        self._owner.end_if_all_ended()

    def _greet(self, hello: Hello) -> tuple[RemoteRank, Welcome] | None:
        world = self._setting.spec.world
        node, local_rank = divmod(hello.rank, world.processes_per_node)
        name, wrong = self._program.name, None
        if hello.size != world.size or hello.rank >= world.size:
            wrong = f"{name} started {hello.size} ranks, and world.nodes x world.processes_per_node is {world.size}"
        elif hello.local_rank not in (None, local_rank):
            wrong = (
                f"{name} gave rank {hello.rank} the local rank {hello.local_rank} on {hello.host}, and with "
                f"{world.processes_per_node} processes per node it is {local_rank}; {self._program.remedy}"
            )
        if wrong is not None and self._owner is not None:
            self._owner.leave(ExitCode.TOPOLOGY_MISMATCH, Cause(rank=hello.rank, kind="TopologyMismatch", message=wrong))
            return None
        rank = self._ranks[hello.rank]
        if rank.host:
            get_log().warning("call_refused", host=hello.host, reason=f"rank {hello.rank} is connected already, from {rank.host}")
            return None
        numbered = numbers(world.processes_per_node, world.nodes, node, local_rank)
        told, work = {**numbered, **self._program.rendezvous_env, **self._of_attempt}, self._setting.spec.work
        return rank, Welcome(environment=told, hand=isinstance(work, Script) and work.calls_us)

    def _rank_exited(self, rank: RemoteRank, status: int) -> None:
        self._exited.add(rank.number)
        if self._owner is not None:
            self._owner.rank_ended(rank, status)
        if len(self._exited) == len(self._ranks):
            self._timers.after(EXIT_SECONDS, self._end)

    def _told_to_end(self, host: str) -> None:
        self.on_told(host)

    def _rank_lost(self, rank: RemoteRank) -> None:
        if self._owner is not None:
            self._owner.rank_lost(rank, f"its connection from {rank.host} ended")

    def _end(self) -> None:
        """Ranks cannot be killed from here one by one: the launcher ends them all, and their hosts do so where it cannot."""
        if self._ending or self._process is None or self._process.returncode is not None:
            return
        self._ending = True
        pid = self._process.pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        self._timers.after(TERM_SECONDS, lambda: kill_group(pid))


def _nobody(host: str) -> None:
    pass


class RemoteRank(Rank):
    """A rank that a launcher started. It lives as long as the launcher does, and is killed with it."""

    def __init__(self, number: int, on_word: OnWord, end_launcher: Callable[[], None]) -> None:
        super().__init__(number, on_word)
        self.stacks = self.written = RemoteStacks()
        self.host = ""
        self.connection: RankConnection | None = None
        """None until it connects, and after that has ended."""
        self._end_launcher = end_launcher

    def say(self, message: ToRankMessage) -> None:
        if self.connection is not None:
            self.connection.say(message)

    def signal(self, number: signal.Signals) -> None:
        if self.connection is not None:
            self.connection.say(SendSignal(number=number))

    def kill(self) -> None:
        if self.alive:
            self.killed = self.outcome is None or self.killed
            self._end_launcher()


class RemoteStacks:
    """As the rank's parent read them last."""

    def __init__(self) -> None:
        self.text = ""

    def read(self) -> str:
        return self.text


class RankListener:
    """Listens on a port of the kernel's choice. Whoever does not prove that it is a rank of this attempt is logged and dropped.

    Args:
        bind: Address to listen on, and to be dialled at unless it is every address.
        credentials: Identity and attempt, and the path of the secret that all pods have, if they have one.
        most: Ranks, each of which has one connection.
        greet: Takes a :class:`Hello`; gives the rank and what to tell it, or None to refuse it.
        on_exit: The rank's parent says how it ended.
        on_lost: The connection of a rank ended before that.
        on_told: A rank's own pod is told to end; gets the name of its host.
    """

    def __init__(
        self, bind: str, host: str, credentials: Credentials, most: int,
        greet: Callable[[Hello], tuple[RemoteRank, Welcome] | None],
        on_exit: Callable[[RemoteRank, int], None],
        on_lost: Callable[[RemoteRank], None],
        on_told: Callable[[str], None],
    ) -> None:
        self._token, self._credentials = secrets.token_hex(16), credentials
        key = shared_key(self._token, credentials.secret)
        self._proof = Proof(key, credentials.identity, credentials.attempt)
        self._greet, self._on_exit, self._on_lost, self._on_told = greet, on_exit, on_lost, on_told
        self._unidentified: dict[RankConnection, None] = {}
        """Those that are no rank's yet, the oldest first."""
        self._most_unidentified = most + SPARE_CONNECTIONS
        self._dropped = DroppedLog("call_refused")
        self._listener = socket.create_server((bind, 0), backlog=1024)
        self._listener.setblocking(False)
        self._address = (host, int(self._listener.getsockname()[1]))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener.fileno(), self._accept)

    @property
    def address(self) -> str:
        """Where a rank dials and what it has to know, as its environment has it."""
        host, port = self._address
        return f"{self._token}/{host}/{port}/{self._credentials.identity}{self._credentials.secret or ''}"

    def close(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for connection in list(self._unidentified):
            connection.close()

    def _accept(self) -> None:
        try:
            endpoint, _ = self._listener.accept()
        except OSError as error:  # it is gone again, or no descriptor is left
            if self._unidentified and error.errno in (errno.EMFILE, errno.ENFILE):
                self._drop(next(iter(self._unidentified)), "no descriptor is left")
            return
        with suppress(OSError):  # reset already
            keep_alive(endpoint)
        connection = RankConnection(endpoint, self._hear, self._ended)
        self._unidentified[connection] = None
        self._loop.call_later(INTRODUCTION_SECONDS, self._expect_rank, connection)
        if len(self._unidentified) > self._most_unidentified:
            self._drop(next(iter(self._unidentified)), "there are more connections than ranks")

    def _expect_rank(self, connection: RankConnection) -> None:
        if connection in self._unidentified:
            self._drop(connection, f"it did not introduce itself within {INTRODUCTION_SECONDS:g} s")

    def _drop(self, connection: RankConnection, reason: str) -> None:
        self._dropped.add(reason, host=connection.host)
        connection.close()

    def _hear(self, connection: RankConnection, message: FromRemoteRankMessage | None) -> None:
        rank = connection.rank
        match message:
            case Call(nonce=nonce) if connection.nonces is None:
                nonces = connection.nonces = nonce, new_nonce()
                proof = self._proof.of("node 0", *nonces)
                connection.say(Answer(attempt=self._credentials.attempt, nonce=nonces[1], proof=proof or ""))
            case Hello() if rank is None and connection.nonces is not None:
                self._take(connection, message, connection.nonces)
            case _ if rank is None:
                self._drop(connection, "it is no rank of this run")
            case None:
                pass
            case Exited(status=status):
                connection.rank = rank.connection = None
                self._on_exit(rank, status)
            case StacksWritten(text=text):
                rank.written.text = text
            case ToldToEnd(host=host):
                self._on_told(host)
            case Call() | Hello():
                connection.close()
            case _:
                rank.hear(message)

    def _take(self, connection: RankConnection, hello: Hello, nonces: tuple[str, str]) -> None:
        if not self._proof.fits(hello.proof, "pod", *nonces, hello.rank, hello.size):
            return self._drop(connection, "it is of another attempt")
        answer = self._greet(hello)
        if answer is None:
            return connection.close()
        rank, welcome = answer
        self._unidentified.pop(connection, None)
        connection.rank, rank.connection, rank.host = rank, connection, hello.host
        connection.say(welcome)

    def _ended(self, connection: RankConnection) -> None:
        self._unidentified.pop(connection, None)
        rank, connection.rank = connection.rank, None
        if rank is not None:
            rank.connection = None
            self._on_lost(rank)


class RankConnection(RankLink):
    """One connection. ``rank`` is known after its :class:`Hello`."""

    messages: ClassVar[TypeAdapter[Any]] = FROM_REMOTE_RANK

    def __init__(self, ours: socket.socket, on_message: OnRankMessage, on_end: OnEnd) -> None:
        self.rank: RemoteRank | None = None
        self.nonces: tuple[str, str] | None = None
        """Its own and ours, once it has called."""
        self.host = "unknown"
        with suppress(OSError):
            self.host = str(ours.getpeername()[0])
        self._on_heard, self._on_end = on_message, on_end
        super().__init__(ours, lambda message: on_message(self, message))

    def misunderstood(self, line: str, reason: str) -> None:
        if self.rank is not None:
            super().misunderstood(line, reason)
        self._on_heard(self, None)

    def close(self) -> None:
        was_open = self._open
        super().close()
        if was_open:
            self._on_end(self)
