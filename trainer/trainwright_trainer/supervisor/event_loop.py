"""What a supervisor needs beside asyncio's own: tasks that cannot fail silently, calls that may hang, timers of one owner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

_running: set[asyncio.Task[None]] = set()
"""The event loop itself keeps only weak references to tasks."""
Value = TypeVar("Value")


def in_background(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run beside everything else. An exception goes to the loop's exception handler at once."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_report_failure)
    return task


def _report_failure(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "a background task failed", "exception": error})


async def in_daemon_thread(function: Callable[[], Value]) -> Value:
    """Await ``function()`` in a thread of its own.

    ``asyncio.to_thread`` would not do: Python waits for its threads at exit, and a hung volume would keep the pod alive.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Value] = loop.create_future()

    def set_answer(value: Value | None, error: BaseException | None) -> None:
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
            loop.call_soon_threadsafe(set_answer, value, error)

    threading.Thread(target=work, daemon=True).start()
    return await answer


class Timers:
    """Calls on the event loop's clock. Needs a running loop."""

    def __init__(self) -> None:
        self._pending: set[asyncio.TimerHandle] = set()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` once, unless cancelled before."""

        def act() -> None:
            self._pending.discard(handle)
            action()

        handle = asyncio.get_running_loop().call_later(seconds, act)
        self._pending.add(handle)

    def cancel(self) -> None:
        for handle in self._pending:
            handle.cancel()
        self._pending.clear()
