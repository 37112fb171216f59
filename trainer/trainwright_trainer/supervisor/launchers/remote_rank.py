"""Parent of a rank that a launcher started: ``python -m trainwright_trainer.supervisor.launchers.remote_rank COMMAND...``.

mpirun starts this on each slot, and Ray Train in each of its workers. It dials the launcher's supervisor, starts the rank with
torch's environment and a link like any other rank's, and carries what the two say to each other. So these ranks have results of
their own, agree like others, and are told to end with all of the grace period, while mpirun itself kills its processes about a
second after its SIGTERM (orte/mca/odls/base, ``odls_base_sigkill_timeout``) and reports no more than one exit status.

It ends with 0 once it has said how the rank ended: any other status would make mpirun kill ranks that still save.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from trainwright_trainer.contract.base import Contract, Index
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.rank.messages import (
    At,
    Committed,
    Heartbeat,
    Measured,
    Pace,
    PhaseChanged,
    Result,
    Wanted,
)
from trainwright_trainer.rank.place import available_cpus
from trainwright_trainer.run.launched import HYDRA, OPEN_MPI, TORCH
from trainwright_trainer.run.link import LINK_FD_ENV, STACKS_FD_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.interpreter import hand_path
from trainwright_trainer.supervisor.wire.messages import Word
from trainwright_trainer.supervisor.wire.proof import Proof, new_nonce, read_secret

DIAL_ENV = "TRAINWRIGHT_DIAL"
"""Environment variable of a rank that a launcher started: ``TOKEN/HOST/PORT/IDENTITY`` of its supervisor, and the path of a
secret where there is one. The token never goes over that connection: both ends prove that they know it, and the secret."""
PARENT_MODULE = "trainwright_trainer.supervisor.launchers.remote_rank"
"""This program, by the name with which launchers start it."""
DIAL_SECONDS = 30.0
STACKS_SECONDS = 0.3
"""For a rank to write its stacks."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 8000}
"""A machine that is gone is noticed in about 8 seconds. The last one, in milliseconds, is for data that is on its way: until that
is acknowledged the kernel asks nothing else, and repeats it for a quarter of an hour (tcp(7), ``tcp_retries2``)."""
_BYTES, _STACKS_BYTES = 1 << 16, 1 << 18
_NUMBERS = tuple(names[:3] for names in (OPEN_MPI, HYDRA, TORCH))
"""Rank, size and local rank: what mpirun sets counts before torch's names."""


class Call(Contract):
    """The first message."""

    type: Literal["call"] = "call"
    nonce: Word


class Answer(Contract):
    """Of the launcher's supervisor, whose attempt it is."""

    type: Literal["answer"] = "answer"
    attempt: str
    nonce: str
    proof: str


class Hello(Contract):
    """The second message: a rank of the attempt before, or of another run, cannot make its proof."""

    type: Literal["hello"] = "hello"
    proof: Word
    rank: Index
    size: Index
    """Of the world, as the launcher numbered it."""
    local_rank: Index | None
    host: Word


class Welcome(Contract):
    """The answer: start."""

    type: Literal["welcome"] = "welcome"
    environment: dict[str, str]
    hand: bool = False
    """Whether the rank is a script that calls us, and is to find what its own pod has brought for it."""


class Exited(Contract):
    """The last message, of the rank's parent: its exit status, negative for a signal."""

    type: Literal["exited"] = "exited"
    status: int


class ToldToEnd(Contract):
    """The rank's own pod is told to end."""

    type: Literal["told_to_end"] = "told_to_end"
    host: str


class StacksWritten(Contract):
    """The stacks of the rank's threads, after ``SIGUSR2``."""

    type: Literal["stacks_written"] = "stacks_written"
    text: str


class SendSignal(Contract):
    """Give the rank this signal."""

    type: Literal["send_signal"] = "send_signal"
    number: int


FromRemoteRankMessage = (
    Call | Hello | Exited | ToldToEnd | StacksWritten
    | PhaseChanged | Measured | Committed | Heartbeat | Pace | At | Wanted | Result
)
FROM_REMOTE_RANK: TypeAdapter[FromRemoteRankMessage] = TypeAdapter(Annotated[FromRemoteRankMessage, Field(discriminator="type")])


def shared_key(token: str, secret: str | None) -> bytes:
    """What both ends know: the token of the attempt, which the launcher hands on, and the secret in a file of both pods."""
    return token.encode() + (read_secret(secret) or b"")


def mpi_numbers(environment: Mapping[str, str]) -> tuple[int, int, int | None]:
    """Rank, world size and local rank by the launcher's own variables. Raises ``KeyError`` where it set none."""
    for rank, size, local in _NUMBERS:
        if rank in environment:
            return int(environment[rank]), int(environment[size]), int(environment[local]) if local in environment else None
    raise KeyError(" or ".join(rank for rank, _, _ in _NUMBERS))


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice a peer that is silently gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def main(command: Sequence[str], environment: dict[str, str]) -> int:
    """Exit status of the process: 0 once the rank's own was told."""
    try:
        token, host, port, identity, *secret = environment.pop(DIAL_ENV).split("/", 4)
        rank, size, local_rank = mpi_numbers(environment)
    except (KeyError, ValueError) as error:
        return _print_failure(f"{error} is not set: mpirun or Ray Train starts this program, as `trainwright-trainer` tells them")
    try:
        line = _Line(_dial(host, int(port)))
        nonce = new_nonce()
        line.send({"type": "call", "nonce": nonce})
        answer = line.first() or {"attempt": "", "nonce": "", "proof": ""}
        proof = Proof(shared_key(token, f"/{secret[0]}" if secret else None), identity, answer["attempt"])
        nonces = nonce, answer["nonce"]
        if not proof.fits(answer["proof"], "node 0", *nonces):
            return _print_failure(f"rank {rank} reached {host}:{port}, and who answers there is not the supervisor of {identity}")
        line.send({
            "type": "hello", "proof": proof.of("pod", *nonces, rank, size), "rank": rank, "size": size, "local_rank": local_rank,
            "host": socket.gethostname(),
        })
        welcome = line.first()
    except PodError as error:
        return _print_failure(f"rank {rank}: {error}")
    except (ValueError, KeyError):
        return _print_failure(f"rank {rank} reached {host}:{port}, and what answers there is not a supervisor")
    except OSError as error:
        return _print_failure(f"rank {rank} cannot reach its supervisor at {host}:{port}: {error.strerror or error}")
    if welcome is None:
        return _print_failure(f"rank {rank} was refused by its supervisor at {host}:{port}, whose log says why")
    told: dict[str, str] = welcome["environment"]
    threads = str(max(1, available_cpus() // int(told["LOCAL_WORLD_SIZE"])))
    hand = hand_path(environment) if welcome["hand"] else {}
    return _RankParent(line, command, {"OMP_NUM_THREADS": threads, **environment, **hand, **told}).run()


class _Line:
    """The connection to the launcher's supervisor."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self._pending = connection, b""

    def send(self, message: Mapping[str, object]) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def first(self) -> dict[str, Any] | None:
        """The first message; None where the other end closed without one."""
        while b"\n" not in self._pending:
            data = self.socket.recv(_BYTES)
            if not data:
                return None
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def lines(self) -> list[bytes] | None:
        """What has arrived; None at the end."""
        try:
            data = self.socket.recv(_BYTES)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        return lines


class _RankParent:
    """The rank as a child, and two sockets to carry lines between."""

    def __init__(self, line: _Line, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._line = line
        self._ours, theirs = socket.socketpair()
        self._stacks, self._stacks_due = os.memfd_create("trainwright-stacks", 0), 0.0
        self._offered = False
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: None)  # acted on in the loop; a child starts with the default again
        signal.set_wakeup_fd(self._wake.fileno())
        # In the launcher's process group: its kill reaches the rank too.
        self._child = subprocess.Popen(
            shim.tied(command), stdin=subprocess.DEVNULL,
            env={**environment, LINK_FD_ENV: str(theirs.fileno()), STACKS_FD_ENV: str(self._stacks)},
            pass_fds=[theirs.fileno(), self._stacks],
        )
        theirs.close()

    def run(self) -> int:
        selector = selectors.DefaultSelector()
        selector.register(self._line.socket, selectors.EVENT_READ, self._from_supervisor)
        selector.register(self._ours, selectors.EVENT_READ, self._from_rank)
        selector.register(self._woken, selectors.EVENT_READ, self._by_signal)
        try:
            while self._child.poll() is None:
                for key, _ in selector.select(0.1 if self._stacks_due else 5.0):
                    if key.data() is False:
                        selector.unregister(key.fileobj)
                if self._stacks_due and time.monotonic() >= self._stacks_due:
                    self._stacks_due = 0.0
                    self._tell_stacks()
            self._drain()
            self._line.send({"type": "exited", "status": self._child.returncode})
        except OSError:
            return self._abandoned()
        return 0

    def _from_supervisor(self) -> None:
        lines = self._line.lines()
        if lines is None:
            raise OSError("the launcher's supervisor is gone")
        for line in lines:
            message = json.loads(line)
            if message["type"] == "send_signal":
                self._child.send_signal(message["number"])
                if message["number"] == signal.SIGUSR2:
                    self._stacks_due = time.monotonic() + STACKS_SECONDS
            else:
                with suppress(OSError):  # the rank is ending: its exit status follows
                    self._ours.sendall(line + b"\n")

    def _from_rank(self) -> bool:
        try:
            data = self._ours.recv(_BYTES)
        except OSError:
            data = b""
        if data:
            self._line.socket.sendall(data)
            self._offered = self._offered or self._tell_stacks()  # the rank opened its link, so it can be asked for stacks
        return bool(data)

    def _drain(self) -> None:
        self._ours.setblocking(False)
        while self._from_rank():
            pass

    def _by_signal(self) -> None:
        numbers = self._woken.recv(_BYTES)
        if signal.SIGUSR1 in numbers:
            self._line.send({"type": "told_to_end", "host": socket.gethostname()})

    def _tell_stacks(self) -> bool:
        text = os.pread(self._stacks, _STACKS_BYTES, 0).decode(errors="replace")
        self._line.send({"type": "stacks_written", "text": text})
        return bool(text)

    def _abandoned(self) -> int:
        """Nobody is left to report to: what the rank would save on its own, the others would not know of."""
        self._child.kill()
        self._child.wait()
        return int(ExitCode.PEER_LOST)


def _dial(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + DIAL_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
            continue
        connection.settimeout(None)
        keep_alive(connection)
        return connection


def _print_failure(sentence: str) -> int:
    print(sentence, file=sys.stderr, flush=True)
    return int(ExitCode.INTERNAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
