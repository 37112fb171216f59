"""The control channel: where node 0 listens for the other supervisors, and how each of those reaches it."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pydantic import ValidationError

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.event_loop import in_background, in_daemon_thread
from trainwright_trainer.supervisor.place import ControlAddress, PodPlace
from trainwright_trainer.supervisor.wire.messages import MESSAGE, AnyMessage, Bye, Downward, Installed, Join, Leave, Ping, Upward

PING_SECONDS = 2.0
FLUSH_SECONDS = 2.0
"""For connections to close once nothing follows."""
CONNECT_SECONDS, RETRY_SECONDS = 5.0, 0.5


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

    def join(self, join: Join, versions: Mapping[str, str], peer: Peer) -> Leave | None:
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
    """Accepts the connections of the other pods and hands what they say to the coordinator."""

    def __init__(self, leader: Leader, silence_seconds: float) -> None:
        self._leader, self._silence_seconds = leader, silence_seconds
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, bind: str, port: int) -> None:
        """Raises :class:`PodError` where the address cannot be used."""
        try:
            # Connections of the attempt before linger in TIME_WAIT; they must not keep the port.
            self._server = await asyncio.start_server(self._accept, bind, port, reuse_address=True, backlog=1024)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"cannot listen on {bind}:{port} for the other pods: {reason}; free the port, or change world.control_port"
            raise PodError(ExitCode.INTERNAL, "CannotListen", message) from None

    async def close(self, patience_seconds: float) -> None:
        """Leave last: wait for the others to close their connections, and drop those that do not in time."""
        if self._server is not None:
            self._server.close()
        await self._emptied(patience_seconds)
        for connection in list(self._connections.values()):
            connection.finish()
        await self._emptied(FLUSH_SECONDS)

    async def _emptied(self, seconds: float) -> None:
        if self._connections and seconds > 0:
            await asyncio.wait(set(self._connections), timeout=seconds)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._silence_seconds)
        task = in_background(self._serve(connection))
        self._connections[task] = connection
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, connection: Connection) -> None:
        peer: Peer | None = None
        try:
            join = await connection.receive()
            if not isinstance(join, Join):
                raise ConnectionEnd("it did not begin with a join")
            versions = await _versions(join, connection)
            if self._leader.is_over:  # a pod of the next attempt is early: it tries again until node 0 is new too
                raise ConnectionEnd("this attempt is over")
            peer = Peer(join.node, join.host, connection.send)
            if refusal := self._leader.join(join, versions, peer):
                peer = None
                connection.send(refusal)
                connection.finish()
            while True:
                message = await connection.receive()
                if peer is not None and isinstance(message, Upward):
                    self._leader.heard(peer, message)
        except ConnectionEnd as end:
            if peer is not None:
                self._leader.lost(peer, str(end), end.silent)
            else:
                get_log().info("connection_dropped", address=connection.address, reason=str(end))
        finally:
            connection.drop()


async def _versions(join: Join, connection: Connection) -> Mapping[str, str]:
    """Of the pod's software. A trainer of another version may not tell them, and is refused for that version."""
    if join.version != __version__:
        return {}
    message = await connection.receive()
    if not isinstance(message, Installed):
        raise ConnectionEnd("it did not say what it has installed")
    return message.versions


def difference_from_node_0(join: Join, versions: Mapping[str, str], sha256: str, pods: int) -> str | None:
    """How a pod differs from node 0, for a sentence that names the pod first; None where they may train together.

    It finds the pods of a roll-out that is only half done: another ConfigMap here, another image there.

    Args:
        join: The pod's first message.
        versions: Of its software, which it sends next.
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
    if different := software.difference(versions, software.installed()):
        return f"they have {different}; every pod must run the same image"
    return None


class ControlClient:
    """Reaches node 0 and hands what it says to the pod."""

    def __init__(self, spec: RunSpec, sha256: str, place: PodPlace, control: ControlAddress, pod: Follower) -> None:
        self._spec, self._sha256, self._place, self._pod = spec, sha256, place, pod
        self._host, self._port = control.host, control.port
        self._connection: Connection | None = None

    async def follow(self) -> None:
        """Until the connection ends for good. Before ``start`` an end only means to wait again: node 0 may be replaced."""
        loop = asyncio.get_running_loop()
        budget = self._spec.lifecycle.peer_wait_seconds
        get_log().info("waiting_for_node_0", host=self._host, port=self._port, seconds=budget)
        # The budget is for each wait: one that was spent with node 0, waiting for others, says nothing about its replacement.
        while (reader_writer := await self._reach(loop.time() + budget)) is not None:
            self._connection = connection = Connection(*reader_writer, self._spec.lifecycle.peer_lost_seconds)
            connection.send(Join(node=self._place.node or 0, host=self._place.host, sha256=self._sha256, version=__version__))
            connection.send(Installed(versions=dict(software.installed())))
            self._pod.connect(connection.send)
            try:
                await self._listen(connection)
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

    async def _reach(self, deadline: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Try until it works; None when the budget is spent, and then the pod has heard so."""
        loop = asyncio.get_running_loop()
        reason = "not tried"
        while (left := deadline - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(CONNECT_SECONDS, left)):
                    return await self._connect()
            except TimeoutError:
                reason = "no answer"
            except OSError as error:  # not resolved yet, refused, unreachable: its pod may still be pending
                reason = error.strerror or str(error)
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - loop.time())))
        message = (
            f"node 0 did not come within {self._spec.lifecycle.peer_wait_seconds:g} s: "
            f"{self._host}:{self._port}: {reason}; check that its pod is scheduled"
        )
        get_log().error("peers_never_came", missing=[0], reason=reason)
        cause = Cause(kind="PeersNeverCame", message=message)
        self._pod.heard(Leave(code=ExitCode.PEERS_NEVER_CAME, cause=cause, patience_seconds=0))
        return None

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
        _keep_alive(writer.get_extra_info("socket"), silence_seconds)
        self._pings = asyncio.create_task(self._ping())

    def send(self, message: AnyMessage) -> None:
        if not self._writer.is_closing():
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

    def finish(self) -> None:
        """Say that nothing follows. The receiver goes on until the other end closes too.

        To close at once could reset the connection, and take the last word with it.
        """
        self._pings.cancel()
        if not self._writer.is_closing() and self._writer.can_write_eof():
            with suppress(OSError):  # reset by the other end, and not yet noticed here
                self._writer.write_eof()

    def drop(self) -> None:
        """Close without waiting."""
        self._pings.cancel()
        self._writer.close()

    async def _ping(self) -> None:
        while True:
            self.send(Ping())
            await asyncio.sleep(min(PING_SECONDS, self._silence_seconds / 4))


def _keep_alive(endpoint: socket.socket, silence_seconds: float) -> None:
    """Let the kernel find a dead machine too: it acknowledges nothing, and our pings would wait in the send buffer."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(silence_seconds * 1000))
