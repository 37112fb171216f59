"""The supervisor's end of a rank's link: JSON lines over a socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter, ValidationError

from trainwright_trainer.contract.base import Contract
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.messages import FROM_RANK

MAX_LINE_BYTES = 1 << 20
_READ_BYTES = 1 << 16

OnMessage = Callable[[Any], None]
"""Gets what :attr:`RankLink.messages` understands."""


class RankLink:
    """Reads what a rank says and hands each message on; says things to it without ever waiting for it."""

    messages: ClassVar[TypeAdapter[Any]] = FROM_RANK
    """What is understood."""

    def __init__(self, ours: socket.socket, on_message: OnMessage) -> None:
        self._socket = ours
        self._on_message = on_message
        self._buffer = bytearray()
        self._open = True
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours.fileno(), self.drain)

    @classmethod
    def pair(cls, on_message: OnMessage) -> tuple[Self, socket.socket]:
        """A link, and the rank's end to hand over and close."""
        ours, theirs = socket.socketpair()
        return cls(ours, on_message), theirs

    def say(self, message: Contract) -> None:
        """Send one message. A rank that is gone, or has stopped reading, does not hear it: its silence is noticed elsewhere."""
        if not self._open:
            return
        try:
            self._socket.send(message.model_dump_json().encode() + b"\n")
        except OSError as error:
            get_log().warning("rank_does_not_listen", reason=str(error))

    def drain(self) -> None:
        """Hand on everything that has arrived. Called once more when the process has ended, so that no last word is missed."""
        while self._open:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                return self.close()
            self._buffer += data
            self._deliver()

    def close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()

    def _deliver(self) -> None:
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            try:
                message = self.messages.validate_json(bytes(line))
            except ValidationError as error:
                text = bytes(line[:200]).decode(errors="replace")
                get_log().warning("message_not_understood", line=text, reason=error.errors()[0]["msg"])
                continue
            self._on_message(message)
        if len(self._buffer) > MAX_LINE_BYTES:
            get_log().warning("message_too_long", bytes=len(self._buffer))
            self.close()
