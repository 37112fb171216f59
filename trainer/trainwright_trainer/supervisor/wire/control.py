"""The control channel: where node 0 listens for the other supervisors, and how each of those reaches it."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Protocol, TypeVar

from pydantic import ValidationError

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.event_loop import in_background, in_daemon_thread
from trainwright_trainer.supervisor.place import ControlAddress, PodPlace
from trainwright_trainer.supervisor.wire.messages import (
    MESSAGE,
    AnyMessage,
    Bye,
    Challenge,
    Downward,
    Join,
    Knock,
    Leave,
    Ping,
    Upward,
)
from trainwright_trainer.supervisor.wire.proof import Proof, new_nonce

PING_SECONDS = 2.0
FLUSH_SECONDS = 2.0
"""For connections to close once nothing follows."""
CONNECT_SECONDS, RETRY_SECONDS = 5.0, 0.5
FIRST_RETRY_SECONDS = 0.02
"""Node 0 may be between two attempts."""
INTRODUCTION_SECONDS = 10.0
"""For both ends to say who they are; it takes milliseconds unless a machine is overloaded."""
SPARE_CONNECTIONS = 64
"""Beyond one for each pod: more that have not joined are not kept, for each takes a descriptor and a buffer."""
BACKLOG = 128
"""Also the most that asyncio accepts at once, before any of them is served (asyncio/selector_events.py)."""
MAX_LINE_BYTES = 1 << 16
SHOWN = 100
NO_PROOF = "it did not prove that it knows the run's secret"
Value = TypeVar("Value")


@dataclass(eq=False, slots=True)
class Peer:
    """A pod that has joined."""

    node: int
    host: str
    send: Callable[[Downward], None]
    bye: Bye | None = None

    def __str__(self) -> str:
        return f"node {self.node} ({self.host})"


class Leader(Protocol):
    """What the server needs of node 0's coordinator."""

    @property
    def is_over(self) -> bool:
        """Whether this attempt takes nobody in any more."""

    @property
    def nonce(self) -> str:
        """Of this attempt."""

    def join(self, join: Join, peer: Peer) -> Leave | None:
        """Take a pod in; gives the refusal if it cannot take part."""

    def heard(self, peer: Peer, message: Upward) -> None:
        """What a pod says."""

    def lost(self, peer: Peer, why: str, silent: bool) -> None:
        """The connection to a pod ended."""


class Follower(Protocol):
    """What the client needs of its pod."""

    @property
    def waiting(self) -> bool:
        """Whether node 0 has not said ``start`` yet."""

    def connect(self, send_up: Callable[[Upward], None]) -> None:
        """From now on node 0 is reached this way."""

    def heard(self, message: Downward) -> None:
        """What node 0 says."""

    def lost_node_0(self, why: str, silent: bool) -> None:
        """The connection to node 0 ended during the run."""


class ControlServer:
    """Accepts the connections of the other pods and hands what they say to the coordinator.

    Anybody can connect to an open port: a scanner, a pod of another run that was given the address of an old one. Who does not
    introduce itself as a pod of this attempt is logged and dropped, and the run goes on.
    """

    def __init__(self, leader: Leader, specification: Specification, secret: bytes | None) -> None:
        self._leader, self._specification = leader, specification
        self._proof = Proof(secret, specification.spec.identity, leader.nonce)
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._unidentified: dict[Connection, None] = {}
        """Those that have not joined yet, the oldest first."""
        self._most_unidentified = specification.spec.world.nodes + SPARE_CONNECTIONS
        self._dropped = DroppedLog("connection_dropped")
        self._server: asyncio.Server | None = None

    async def listen(self, bind: str, port: int) -> None:
        """Raises :class:`PodError` where the address cannot be used."""
        try:
            # Connections of the attempt before linger in TIME_WAIT; they must not keep the port.
            self._server = await asyncio.start_server(
                self._accept, bind, port, reuse_address=True, backlog=BACKLOG, limit=MAX_LINE_BYTES
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"cannot listen on {bind}:{port} for the other pods: {reason}; free the port, or change world.control_port"
            raise PodError(ExitCode.INTERNAL, "CannotListen", message) from None

    async def close(self, patience_seconds: float) -> None:
        """Leave last: wait for the others to close their connections, and drop those that do not in time."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._unidentified):
            connection.drop()
        await self._emptied(patience_seconds)
        for connection in list(self._connections.values()):
            connection.finish()
        await self._emptied(FLUSH_SECONDS)

    async def _emptied(self, seconds: float) -> None:
        if self._connections and seconds > 0:
            await asyncio.wait(set(self._connections), timeout=seconds)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._specification.spec.lifecycle.peer_lost_seconds)
        self._unidentified[connection] = None
        if len(self._unidentified) > self._most_unidentified:  # a pod takes milliseconds to join, so the oldest is none
            next(iter(self._unidentified)).drop()
        task = in_background(self._serve(connection))
        self._connections[task] = connection
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, connection: Connection) -> None:
        peer: Peer | None = None
        try:
            join = await _in_time(self._introduction(connection))
            if self._leader.is_over:  # a pod of the next attempt is early: it tries again until node 0 is new too
                raise ConnectionEnd("this attempt is over")
            joined = Peer(join.node, join.host, connection.send)
            if refusal := self._leader.join(join, joined):
                await _in_time(connection.refuse(refusal))
            peer = joined
            self._unidentified.pop(connection, None)
            while True:
                message = await connection.receive()
                if isinstance(message, Upward):
                    self._leader.heard(peer, message)
        except ConnectionEnd as end:
            if peer is not None:
                self._leader.lost(peer, str(end), end.silent)
            else:
                self._dropped.add(str(end), address=connection.address)
        finally:
            self._unidentified.pop(connection, None)
            connection.drop()

    async def _introduction(self, connection: Connection) -> Join:
        """Learn who it is. Raises :class:`ConnectionEnd` for whoever is no pod of this attempt."""
        identity, attempt = self._specification.spec.identity, self._leader.nonce
        first = await connection.receive()
        if not isinstance(first, Knock):
            raise ConnectionEnd("it did not say which run it looks for")
        if first.identity != identity:
            raise ConnectionEnd(f"it looks for {first.identity}")
        nonces = first.nonce, new_nonce()
        connection.send(
            Challenge(identity=identity, attempt=attempt, nonce=nonces[1], proof=self._proof.of("node 0", *nonces))
        )
        join = await connection.receive()
        if not isinstance(join, Join) or (join.identity, join.attempt) != (identity, attempt):
            raise ConnectionEnd("it did not join this attempt")
        if not self._proof.fits(join.proof, "pod", *nonces, join.node, join.sha256):
            raise ConnectionEnd(NO_PROOF)
        return join


class DroppedLog:
    """Tells of the first hundred that were dropped, and then of every hundredth: a port scanner must not fill the log."""

    def __init__(self, event: str) -> None:
        self._event, self._count = event, 0

    def add(self, reason: str, **who: str) -> None:
        """One more, with who it was and why."""
        self._count += 1
        if self._count <= SHOWN or self._count % SHOWN == 0:
            get_log().warning(self._event, **who, reason=reason, dropped=self._count)


async def _in_time(introduction: Awaitable[Value]) -> Value:
    """Raises :class:`ConnectionEnd` where it takes too long, whatever the other end sends meanwhile."""
    try:
        async with asyncio.timeout(INTRODUCTION_SECONDS):
            return await introduction
    except TimeoutError:
        raise ConnectionEnd(f"it did not introduce itself within {INTRODUCTION_SECONDS:g} s") from None


def difference_from_node_0(join: Join, sha256: str, pods: int) -> str | None:
    """How a pod differs from node 0, for a sentence that names the pod first; None where they may train together.

    It finds the pods of a roll-out that is only half done: another ConfigMap here, another image there.

    Args:
        join: What the pod says of itself.
        sha256: Of node 0's specification.
        pods: Of the run.
    """
    if join.sha256 != sha256:
        return (
            f"their specifications have the sha256 {join.sha256[:12]} and {sha256[:12]}; "
            "every pod must mount the same ConfigMap"
        )
    if join.version != __version__:
        return f"their trainers are of version {join.version} and {__version__}; every pod must run the same image"
    if not 0 < join.node < pods:
        return f"it says that it is node {join.node}, which is not one of 1 to {pods - 1}"
    if different := software.difference(join.versions, software.installed()):
        return f"they have {different}; every pod must run the same image"
    return None


class ControlClient:
    """Reaches node 0 and hands what it says to the pod."""

    def __init__(
        self, specification: Specification, secret: bytes | None, place: PodPlace, control: ControlAddress, pod: Follower,
        wait_seconds: float, again: bool = False,
    ) -> None:
        """``wait_seconds`` are for node 0 to come, ``again`` where this pod took part in an attempt before."""
        self._wait_seconds, self._again = wait_seconds, again
        self._specification, self._secret, self._place, self._pod = specification, secret, place, pod
        self._lifecycle = specification.spec.lifecycle
        self._host, self._port = control.host, control.port
        self._connection: Connection | None = None

    async def follow(self) -> None:
        """Until the connection ends for good. Before ``start`` an end only means to wait again: node 0 may be replaced."""
        loop = asyncio.get_running_loop()
        budget = self._wait_seconds
        get_log().info("waiting_for_node_0", host=self._host, port=self._port, seconds=budget)
        # The budget is for each wait: one that was spent with node 0, waiting for others, says nothing about its replacement.
        while (connection := await self._reach(loop.time() + budget)) is not None:
            self._connection = connection
            self._pod.connect(connection.send)
            try:
                await self._listen(connection)
            except asyncio.CancelledError:
                connection.drop()  # this pod may join another attempt
                raise
            except ConnectionEnd as end:
                connection.drop()
                if not self._pod.waiting:
                    self._pod.lost_node_0(str(end), end.silent)
                    return
                get_log().warning("node_0_left", reason=str(end))
                await asyncio.sleep(RETRY_SECONDS)

    @property
    def connected(self) -> bool:
        """Whether node 0 was ever reached."""
        return self._connection is not None

    def finish(self) -> None:
        """The pod has sent its last message."""
        if self._connection is not None:
            self._connection.finish()

    async def _listen(self, connection: Connection) -> None:
        while True:
            message = await connection.receive()
            if isinstance(message, Downward):
                self._pod.heard(message)

    async def _reach(self, deadline: float) -> Connection | None:
        """Try until it works; None when the budget is spent, and then the pod has heard so."""
        loop = asyncio.get_running_loop()
        reason, pause = "not tried", FIRST_RETRY_SECONDS
        while (left := deadline - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(CONNECT_SECONDS, left)):
                    streams = await self._connect()
                return await self._join(Connection(*streams, self._lifecycle.peer_lost_seconds))
            except TimeoutError:
                reason = "no answer"
            except ConnectionEnd as end:
                # Another pod may have the address by now, which must neither end this run nor be joined. This one tries again.
                if not reason.endswith(str(end)):
                    get_log().warning("not_node_0", host=self._host, reason=str(end))
                reason = f"who answers there is not node 0 of this run: {end}"
            except OSError as error:  # not resolved yet, refused, unreachable: its pod may still be pending
                reason = error.strerror or str(error)
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(2 * pause, RETRY_SECONDS)
        message = (
            f"node 0 did not come within {self._wait_seconds:g} s: "
            f"{self._host}:{self._port}: {reason}; check that its pod is scheduled"
        )
        get_log().error("peers_never_came", missing=[0], reason=reason)
        never = ExitCode.PEER_LOST if self._again else ExitCode.PEERS_NEVER_CAME
        self._pod.heard(Leave(code=never, cause=Cause(kind="PeersNeverCame", message=message), patience_seconds=0))
        return None

    async def _join(self, connection: Connection) -> Connection:
        """Take the connection for node 0's once it has said so. Raises :class:`ConnectionEnd` where it is another's."""
        try:
            connection.send(await _in_time(self._introduction(connection)))
        except BaseException:
            connection.drop()
            raise
        return connection

    async def _introduction(self, connection: Connection) -> Join:
        spec, sha256, node, nonce = self._specification.spec, self._specification.sha256, self._place.node or 0, new_nonce()
        connection.send(Knock(identity=spec.identity, nonce=nonce))
        challenge = await connection.receive()
        if not isinstance(challenge, Challenge) or challenge.identity != spec.identity:
            raise ConnectionEnd("it did not answer as node 0 of this run")
        proof, nonces = Proof(self._secret, spec.identity, challenge.attempt), (nonce, challenge.nonce)
        if not proof.fits(challenge.proof, "node 0", *nonces):
            raise ConnectionEnd(NO_PROOF)
        return Join(
            node=node, host=self._place.host, sha256=sha256, version=__version__, identity=spec.identity,
            attempt=challenge.attempt, proof=proof.of("pod", *nonces, node, sha256), versions=dict(software.installed()),
            again=self._again,
        )

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # Resolved in a daemon thread: asyncio's own would delay the exit for as long as a name server is silent.
        found = await in_daemon_thread(partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_STREAM))
        problem: OSError | None = None
        for _family, _kind, _protocol, _name, address in found:
            try:
                return await asyncio.open_connection(str(address[0]), self._port)
            except OSError as error:
                problem = error
        raise problem or OSError("the name has no address")


class ConnectionEnd(Exception):  # noqa: N818 - an event, not always an error
    """The connection is over; the message says why, as the rest of a sentence about the other end."""

    silent = False


class Silence(ConnectionEnd):
    """The other end fell silent rather than closed, so that time has been lost already."""

    silent = True


class Connection:
    """``send`` never waits; ``receive`` gives the next message that is no ping, or raises :class:`ConnectionEnd`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence_seconds: float) -> None:
        self._reader, self._writer, self._silence_seconds = reader, writer, silence_seconds
        address = writer.get_extra_info("peername")
        self.address = str(address[0]) if address else "unknown"
        with suppress(OSError):  # reset already
            _keep_alive(writer.get_extra_info("socket"), silence_seconds)
        self._finished = False
        self._pings = asyncio.create_task(self._ping())

    def send(self, message: AnyMessage) -> None:
        """Say something, unless the connection is over: what takes its time in the background may end after it."""
        if not self._finished and not self._writer.is_closing():
            self._writer.write(message.model_dump_json().encode() + b"\n")

    async def receive(self) -> AnyMessage:
        """Raises :class:`ConnectionEnd`: closed, silent for too long, or not speaking this protocol."""
        while True:
            try:
                line = await asyncio.wait_for(self._reader.readline(), self._silence_seconds)
            except TimeoutError:
                raise Silence(f"it was silent for {self._silence_seconds:g} s") from None
            except OSError as error:
                raise ConnectionEnd(f"its connection broke: {error.strerror or error}") from None
            except ValueError:
                raise ConnectionEnd("it sent a line that is too long") from None
            if not line.endswith(b"\n"):
                raise ConnectionEnd("its connection ended")
            try:
                message = MESSAGE.validate_json(line)
            except ValidationError:
                raise ConnectionEnd("it sent a line that is no control message") from None
            if not isinstance(message, Ping):
                return message

    async def refuse(self, refusal: Leave) -> NoReturn:
        """Say why, and wait for the other end to close. Raises :class:`ConnectionEnd` then."""
        self.send(refusal)
        self.finish()
        while True:
            await self.receive()

    def finish(self) -> None:
        """Say that nothing follows. The receiver goes on until the other end closes too.

        To close at once could reset the connection, and take the last word with it.
        """
        self._pings.cancel()
        self._finished = True
        if not self._writer.is_closing() and self._writer.can_write_eof():
            with suppress(OSError):  # reset by the other end, and not yet noticed here
                self._writer.write_eof()

    def drop(self) -> None:
        """Close without waiting."""
        self._pings.cancel()
        self._writer.close()

    async def _ping(self) -> None:
        while True:  # not at once: the introduction is a sign of life, and what a closed end has not read resets the connection
            await asyncio.sleep(min(PING_SECONDS, self._silence_seconds / 4))
            self.send(Ping())


def _keep_alive(endpoint: socket.socket, silence_seconds: float) -> None:
    """Let the kernel find a dead machine too: it acknowledges nothing, and our pings would wait in the send buffer."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(silence_seconds * 1000))
