"""Timers of one owner, all cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


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
