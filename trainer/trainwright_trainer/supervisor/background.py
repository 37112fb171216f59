"""Background tasks that cannot fail in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

_running: set[asyncio.Task[None]] = set()
"""The event loop itself keeps only weak references to tasks."""


def in_background(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run beside everything else. An exception goes to the loop's exception handler at once."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_settled)
    return task


def _settled(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "a background task failed", "exception": error})
