"""One connection between two supervisors: JSON lines, a ping every two seconds, and a limit on silence."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

from pydantic import ValidationError

from trainwright_trainer.supervisor.wire.messages import MESSAGE, AnyMessage, Ping

PING_SECONDS = 2.0


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
        """Say that nothing follows. Whoever receives goes on until the other end closes too.

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
