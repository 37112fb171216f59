"""Spoke: the connection of every other pod to node 0."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.daemon_thread import in_daemon_thread
from trainwright_trainer.supervisor.place import Control, PodPlace
from trainwright_trainer.supervisor.pod.pod import Pod
from trainwright_trainer.supervisor.run.coordinator import PATIENCE_SECONDS
from trainwright_trainer.supervisor.wire.connection import Connection, ConnectionEnd
from trainwright_trainer.supervisor.wire.messages import Downward, Installed, Join, Leave

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
