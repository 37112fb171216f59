"""Hub: where node 0 listens for the other supervisors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor.background import in_background
from trainwright_trainer.supervisor.refusal import Refusal
from trainwright_trainer.supervisor.run.coordinator import Coordinator, Peer
from trainwright_trainer.supervisor.wire.connection import Connection, ConnectionEnd
from trainwright_trainer.supervisor.wire.messages import Installed, Join, Upward

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
