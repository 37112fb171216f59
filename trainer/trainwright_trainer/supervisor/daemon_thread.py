"""Blocking calls beside the event loop that may hang: name resolution, a storage volume."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Value = TypeVar("Value")


async def in_daemon_thread(function: Callable[[], Value]) -> Value:
    """Await ``function()`` in a thread of its own.

    ``asyncio.to_thread`` would not do: Python waits for its threads at exit, and a hung volume would keep the pod alive.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value: Value | None = None
        error: BaseException | None = None
        try:
            value = function()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True).start()
    return await answer
