"""The control channel: where node 0 listens for the other supervisors, and how each of those reaches it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from functools import partial

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import Refusal
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.event_loop import in_background, in_daemon_thread
from trainwright_trainer.supervisor.place import Control, PodPlace
from trainwright_trainer.supervisor.pod.pod import Pod
from trainwright_trainer.supervisor.run.coordinator import PATIENCE_SECONDS, Coordinator, Peer
from trainwright_trainer.supervisor.wire.connection import Connection, ConnectionEnd
from trainwright_trainer.supervisor.wire.messages import Downward, Installed, Join, Leave, Upward

FLUSH_SECONDS = 2.0


class Hub:
    """Accepts connections and hands what they say to the coordinator."""

    def __init__(self, coordinator: Coordinator, silence_seconds: float) -> None:
        self._coordinator, self._silence_seconds = coordinator, silence_seconds
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, bind: str, port: int) -> None:
        """Raises :class:`Refusal` where the address cannot be used."""
        try:
            # Connections of the attempt before linger in TIME_WAIT; they must not keep the port.
            self._server = await asyncio.start_server(self._accept, bind, port, reuse_address=True, backlog=1024)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"cannot listen on {bind}:{port} for the other pods: {reason}; free the port, or change world.control_port"
            raise Refusal(ExitCode.INTERNAL, "CannotListen", message) from None

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
            if self._coordinator.state == "over":  # a pod of the next attempt is early: it tries again until node 0 is new too
                raise ConnectionEnd("this attempt is over")
            peer = Peer(join.node, join.host, connection.send)
            if refusal := self._coordinator.join(join, versions, peer):
                peer = None
                connection.send(refusal)
                connection.finish()
            while True:
                message = await connection.receive()
                if peer is not None and isinstance(message, Upward):
                    self._coordinator.heard(peer, message)
        except ConnectionEnd as end:
            if peer is not None:
                self._coordinator.lost(peer, str(end), end.silent)
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


CONNECT_SECONDS = 5.0
RETRY_SECONDS = 0.5


class Spoke:
    """Reaches node 0 and hands what it says to the pod."""

    def __init__(self, spec: RunSpec, sha256: str, place: PodPlace, control: Control, pod: Pod) -> None:
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
                    self._pod.lost_node_0(str(end), 0 if end.silent else PATIENCE_SECONDS)
                    return
                get_log().warning("node_0_left", reason=str(end))
                await asyncio.sleep(RETRY_SECONDS)

    @property
    def connected(self) -> bool:
        """Whether node 0 was ever reached."""
        return self._connection is not None

    def finish(self) -> None:
        """The pod has said its last word."""
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
            f"{self._host}:{self._port}: {reason}; see whether its pod is scheduled"
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
