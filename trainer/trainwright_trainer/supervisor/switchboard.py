"""Switchboard: where ranks on other machines dial their launcher's supervisor."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import TypeAdapter

from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.messages import Act, Ask, Carry, Where
from trainwright_trainer.supervisor.launchers.remote import (
    FROM_AFAR,
    Exited,
    FromAfarMessage,
    Hello,
    SendSignal,
    StacksWritten,
    ToldToEnd,
    Welcome,
)
from trainwright_trainer.supervisor.launchers.remote_rank import keep_alive
from trainwright_trainer.supervisor.link import RankLink
from trainwright_trainer.supervisor.pod.rank import OnWord, Rank

OnCall = Callable[["Call", FromAfarMessage], None]
OnEnd = Callable[["Call"], None]


class Call(RankLink):
    """One connection. ``rank`` is known after its :class:`Hello`."""

    messages: ClassVar[TypeAdapter[Any]] = FROM_AFAR

    def __init__(self, ours: socket.socket, on_message: OnCall, on_end: OnEnd) -> None:
        self.rank: RemoteRank | None = None
        self._on_end = on_end
        super().__init__(ours, lambda message: on_message(self, message))

    def close(self) -> None:
        was_open = self._open
        super().close()
        if was_open:
            self._on_end(self)


class RemoteStacks:
    """As the rank's parent read them last."""

    def __init__(self) -> None:
        self.text = ""

    def read(self) -> str:
        return self.text


class RemoteRank(Rank):
    """A rank that a launcher started. It lives as long as the launcher does, and is killed with it."""

    def __init__(self, number: int, on_word: OnWord, end_launcher: Callable[[], None]) -> None:
        super().__init__(number, on_word)
        self.stacks = self.written = RemoteStacks()
        self.host = ""
        self.call: Call | None = None
        """None until it dials, and after it hung up."""
        self._end_launcher = end_launcher

    def say(self, message: Where | Act | Carry | Ask) -> None:
        if self.call is not None:
            self.call.say(message)

    def signal(self, number: signal.Signals) -> None:
        if self.call is not None:
            self.call.say(SendSignal(number=number))

    def kill(self) -> None:
        if self.alive:
            self.killed = self.outcome is None or self.killed
            self._end_launcher()


class Switchboard:
    """Listens on a port of the kernel's choice.

    Args:
        bind: Address to listen on, and to be dialled at unless it is every address.
        greet: Takes a :class:`Hello`; gives the rank and what to tell it, or None to refuse it.
        on_exit: The rank's parent says how it ended.
        on_lost: The connection of a rank ended before that.
        on_told: A rank's own pod is told to end; gets the name of its host.
    """

    def __init__(
        self, bind: str, host: str,
        greet: Callable[[Hello], tuple[RemoteRank, Welcome] | None],
        on_exit: Callable[[RemoteRank, int], None],
        on_lost: Callable[[RemoteRank], None],
        on_told: Callable[[str], None],
    ) -> None:
        self.token = secrets.token_hex(16)
        self._greet, self._on_exit, self._on_lost, self._on_told = greet, on_exit, on_lost, on_told
        self._listener = socket.create_server((bind, 0), backlog=1024)
        self._listener.setblocking(False)
        self._address = (host, int(self._listener.getsockname()[1]))
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    @property
    def number(self) -> str:
        """What a rank dials, as its environment has it."""
        return f"{self.token}/{self._address[0]}/{self._address[1]}"

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it is gone again
        keep_alive(connection)
        Call(connection, self._hear, self._ended)

    def _hear(self, call: Call, message: FromAfarMessage) -> None:
        rank = call.rank
        match message:
            case Hello():
                self._take(call, message)
            case _ if rank is None:
                call.close()
            case Exited(status=status):
                call.rank = rank.call = None
                self._on_exit(rank, status)
            case StacksWritten(text=text):
                rank.written.text = text
            case ToldToEnd(host=host):
                self._on_told(host)
            case _:
                rank.hear(message)

    def _take(self, call: Call, hello: Hello) -> None:
        if not secrets.compare_digest(hello.token, self.token):
            get_log().warning("call_refused", host=hello.host, reason="it is of another attempt")
            return call.close()
        answer = self._greet(hello)
        if answer is None:
            return call.close()
        rank, welcome = answer
        call.rank, rank.call, rank.host = rank, call, hello.host
        call.say(welcome)

    def _ended(self, call: Call) -> None:
        rank, call.rank = call.rank, None
        if rank is not None:
            rank.call = None
            self._on_lost(rank)
