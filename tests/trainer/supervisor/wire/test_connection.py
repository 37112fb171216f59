"""A connection between two supervisors, to its end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from trainwright_trainer.supervisor.wire.control import Connection, ConnectionEnd
from trainwright_trainer.supervisor.wire.messages import Bye, Saved


def test_what_comes_after_the_last_word_is_passed_over() -> None:
    """A pod that flushes its volumes for a commit says so when they are flushed, and the attempt may be over by then."""

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        here, there = [Connection(*await asyncio.open_connection(sock=end), silence_seconds=30) for end in (ours, theirs)]
        here.send(Bye(code=1))
        here.finish()
        here.send(Saved(step=5))
        assert await there.receive() == Bye(code=1)
        with pytest.raises(ConnectionEnd):
            await there.receive()
        there.send(Saved(step=6))
        assert await here.receive() == Saved(step=6)
        there.drop()
        here.drop()

    asyncio.run(talk())
